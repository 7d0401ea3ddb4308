"""The simulator, and the command pointed at it."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gemhooks.cli import app
from gemhooks.errors import GemhooksError
from gemhooks.gemini import Gemini
from gemhooks.gemini.webhooks import Webhooks
from gemhooks.simulator import Simulator

Run = Callable[..., Result]


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulator]:
    with Simulator(delay=0.01, retry_base=0.05) as simulator:
        point_at(simulator, monkeypatch)
        yield simulator


def point_at(simulator: Simulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command talk to *simulator*, whatever the developer's own settings are."""
    monkeypatch.setenv("GEMHOOKS_GEMINI_BASE_URL", simulator.url)
    monkeypatch.setenv("GEMINI_API_KEY", "AIzaTheKeyThatNobodyMaySee")
    for name in ("GEMINI_WEBHOOK_SECRET", "GEMINI_WEBHOOK_SECRET_FILE", "GEMHOOKS_RECEIVERS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def api(gemini: Simulator) -> Iterator[Webhooks]:
    client = Gemini("any", base_url=gemini.url)
    yield client.webhooks
    client.close()


@pytest.fixture
def run(gemini: Simulator) -> Run:
    """``gemhooks webhook`` with these arguments; an error of ours is in ``.exception``."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["webhook", *arguments])

    return run


@pytest.fixture
def json_of(run: Run) -> Callable[..., Any]:
    def json_of(*arguments: str) -> Any:
        result = run(*arguments, "--format", "json")
        assert result.exception is None, result.exception
        return json.loads(result.stdout)

    return json_of


@pytest.fixture
def refusal(run: Run) -> Callable[..., str]:
    """The one sentence that a command ends with."""

    def refusal(*arguments: str) -> str:
        error = run(*arguments).exception
        assert isinstance(error, GemhooksError)
        return str(error)

    return refusal
