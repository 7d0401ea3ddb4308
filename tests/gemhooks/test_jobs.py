"""What is started through gemhooks.jobs is known, whatever dies or is away."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gemhooks import jobs
from gemhooks.errors import AnswerLost, LedgerUnavailable, Refused, Unregistered
from gemhooks.functions import marks
from gemhooks.gemini import Gemini
from gemhooks.jobs import Register, Starter
from gemhooks.ledger import Job, Ledgers, open_ledger
from gemhooks.settings import Settings
from gemhooks.simulator import Simulator
from tests.gemhooks.gemini.scripted import ScriptedServer, serving

URI = "http://127.0.0.1:1/webhooks/gemini/token"
EXPECTED = {"interaction": 600.0, "batch": 3600.0, "video": 900.0}
ROW = {"contents": [{"parts": [{"text": "Hello?"}]}]}


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with Simulator(delay=600) as simulator:
        yield simulator


@pytest.fixture
def ledgers(tmp_path: Path) -> Iterator[Ledgers]:
    with closing(open_ledger(f"sqlite:///{tmp_path}/ledger.db")) as ledgers:
        yield ledgers


def starter(url: str, ledgers: Ledgers, *uris: str) -> Starter:
    gemini = Gemini("any", base_url=url, timeout=60.0)
    register = Register(ledgers, EXPECTED, patience=0.0)
    return Starter(gemini.interactions, gemini.starts, register, uris)


def test_an_interaction_is_started_in_the_background_marked_and_known(
    simulator: Simulator, ledgers: Ledgers
) -> None:
    tools = [{"type": "function", "name": "get_time", "parameters": {"type": "object"}}]
    job = starter(simulator.url, ledgers, URI).interaction(
        model="gemini-3.8-flash", input="Hello?", tools=tools, user_metadata={"job": "7"}
    )

    (running,) = simulator.interactions
    config = running.request.webhook_config
    assert config is not None
    assert (running.id, running.request.background, config.uris) == (job.id, True, (URI,))
    assert config.user_metadata == {"job": "7", marks.MARK: marks.STARTED}
    assert (job.kind, job.state, job.ours) == ("interaction", "started", True)
    assert job.expected_at == pytest.approx(time.time() + 600, abs=60)
    assert job.request is not None
    assert (job.request["tools"], job.request["webhook_config"]["uris"]) == (tools, [URI])
    assert ledgers.jobs.get("interaction", job.id) == job


def test_without_uris_the_projects_webhooks_are_called(
    simulator: Simulator, ledgers: Ledgers
) -> None:
    starter(simulator.url, ledgers).interaction(model="gemini-3.8-flash", input="Hello?")

    config = simulator.interactions[0].request.webhook_config
    assert config is not None
    assert not config.uris


def test_a_batch_is_started_and_known_by_its_name(simulator: Simulator, ledgers: Ledgers) -> None:
    job = starter(simulator.url, ledgers, URI).batch(
        model="gemini-3.8-flash",
        src=[ROW],
        config={"display_name": "nightly"},
        user_metadata={"job": "7"},
        expected_in=60,
    )

    (running,) = simulator.batches
    config = running.request.webhook_config
    assert config is not None
    assert (config.uris, running.request.display_name) == ((URI,), "nightly")
    assert job.id == f"batches/{running.id}"
    assert job.user_metadata == {"job": "7"}
    assert job.expected_at == pytest.approx(time.time() + 60, abs=30)


def test_a_video_is_started_and_known_by_its_operation(
    simulator: Simulator, ledgers: Ledgers
) -> None:
    job = starter(simulator.url, ledgers, URI).video(
        model="veo-3", prompt="A cat.", parameters={"aspectRatio": "16:9"}
    )

    assert job.kind == "video"
    assert job.id.startswith("models/veo-3/operations/")
    with closing(Gemini("any", base_url=simulator.url)) as gemini:
        assert gemini.operations.get(job.id)["name"] == job.id


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    yield from serving("127.0.0.1")


STARTS: dict[str, Callable[[Starter], Job]] = {
    "interaction": lambda start: start.interaction(model="m", input="x"),
    "batch": lambda start: start.batch(model="m", src=[ROW]),
    "video": lambda start: start.video(model="m", prompt="x"),
}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((404, b"{}"), Refused),
        ((400, b'{"error":{"message":"no"}}'), Refused),
        ((403, b"{}"), Refused),
        ((504, b"{}"), AnswerLost),
        ((200, b"{}"), AnswerLost),
        ((200, b"[]"), AnswerLost),
    ],
)
@pytest.mark.parametrize("kind", STARTS)
def test_what_was_not_started_is_not_known_and_what_may_have_been_is_said_so(
    server: ScriptedServer,
    ledgers: Ledgers,
    answer: tuple[int, bytes],
    error: type[Exception],
    kind: str,
) -> None:
    server.answer(*answer)

    with pytest.raises(error):
        STARTS[kind](starter(server.url, ledgers))

    assert ledgers.jobs.list() == ()
    assert len(server.seen) == 1


class AwayOnce:
    """A ledger's jobs that can't be written for a while."""

    def __init__(self, ledgers: Ledgers, failures: int) -> None:
        self._jobs = ledgers.jobs
        self.failures = failures

    def record(self, *given: Any, **more: Any) -> Any:
        self.failures -= 1
        if self.failures >= 0:
            raise LedgerUnavailable("away")
        return self._jobs.record(*given, **more)


@pytest.mark.parametrize(("patience", "is_known"), [(30.0, True), (0.0, False)])
def test_a_database_that_is_away_for_a_moment_costs_nothing_and_for_long_no_id(
    ledgers: Ledgers, patience: float, *, is_known: bool
) -> None:
    class Half:
        jobs = AwayOnce(ledgers, failures=2)
        lookups = ledgers.lookups

    register = Register(Half(), EXPECTED, patience=patience)  # type: ignore[arg-type]  # all it uses
    if is_known:
        assert register.started("batch", "batches/b1").ours
        return
    with pytest.raises(Unregistered, match="gemhooks jobs add batches/b1 --kind batch") as caught:
        register.started("batch", "batches/b1")
    assert (caught.value.kind, caught.value.id) == ("batch", "batches/b1")


def test_a_job_whose_event_was_faster_is_looked_at_at_once(ledgers: Ledgers) -> None:
    ledgers.jobs.record("interaction", "v1_x", "requires_action")
    job = Register(ledgers, EXPECTED).started("interaction", "v1_x")

    assert job.state == "requires_action"
    due = ledgers.lookups.take(shortest=30.0)
    assert due is not None
    assert due.id == "v1_x"


@pytest.mark.parametrize(
    "wanted",
    [
        {"stream": True},
        {"background": False},
        {"store": False},
        {"webhook_config": {}},
        {"user_metadata": {"gemhooks": "x"}},
    ],
)
def test_what_would_never_call_back_is_refused_unsent(
    ledgers: Ledgers, wanted: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"background|gemhooks|webhook_config|store"):
        starter("http://127.0.0.1:1", ledgers).interaction(model="m", input="x", **wanted)


def test_a_starter_is_made_from_the_settings(simulator: Simulator, tmp_path: Path) -> None:
    settings = Settings.from_env(
        {
            "GEMINI_API_KEY": "any",
            "GEMHOOKS_GEMINI_BASE_URL": simulator.url,
            "GEMHOOKS_DATABASE_URL": f"sqlite:///{tmp_path}/other.db",
            "GEMHOOKS_WEBHOOK_URIS": "https://example.com/webhooks/gemini/token",
        }
    )
    with jobs.connect(settings) as start:
        job = start.interaction(model="gemini-3.8-flash", input="Hello?")

    assert [each.id for each in simulator.interactions] == [job.id]
