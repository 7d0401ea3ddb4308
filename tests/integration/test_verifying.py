"""Where operators own the broker's topology, no program of ours makes any of it."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gemhooks.cli.waking import wake
from gemhooks.errors import GemhooksError
from tests.integration.processes import process
from tests.services.ports import free_port
from tests.services.rabbitmq import Broker
from tests.services.waiting import eventually

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def settings(url: str, folder: Path) -> dict[str, str]:
    return {
        "GEMHOOKS_BROKER_URL": url,
        "GEMHOOKS_DECLARE": "verify",
        "GEMHOOKS_DATABASE_URL": f"sqlite:///{folder}/ledger.db",
        "GEMHOOKS_GEMINI_BASE_URL": "http://127.0.0.1:1",
        "GEMHOOKS_PORT": str(free_port()),
        "GEMHOOKS_ADMIN_PORT": str(free_port()),
        "GEMINI_API_KEY": "k",
        "GEMINI_WEBHOOK_SECRET": SECRET,
    }


def made(node: Broker, url: str) -> list[Any]:
    """The exchanges and queues of ours that are there."""
    vhost = urlsplit(url).path.removeprefix("/")
    found = (node.api("GET", f"/api/{kind}/{vhost}") for kind in ("exchanges", "queues"))
    names = [each["name"] for several in found for each in several]
    return [name for name in names if name.startswith("gemhooks.")]


@pytest.mark.parametrize("program", [("receiver",), ("workers",), ("workers", "reconcile")])
def test_a_program_that_verifies_makes_nothing_and_says_what_is_missing(
    program: tuple[str, ...], amqp_url: str, rabbitmq_node: Broker, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with process(*program, log=log, env=settings(amqp_url, tmp_path)):
        eventually(lambda: "RabbitMQ refuses gemhooks.events: NOT_FOUND" in log.read_text())

        assert made(rabbitmq_node, amqp_url) == []


def test_waking_a_worker_makes_nothing_either(
    amqp_url: str, rabbitmq_node: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings(amqp_url, tmp_path).items():
        monkeypatch.setenv(name, value)

    with pytest.raises(GemhooksError, match="NOT_FOUND"):
        wake("v1_x", by="test")
    assert made(rabbitmq_node, amqp_url) == []
