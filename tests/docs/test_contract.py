"""The contract is what is really published, and machine-readable by its own standards."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from jsonschema import Draft202012Validator, ValidationError

from gemhooks import events, jobs, topology
from gemhooks.cli.demo import scripts
from gemhooks.messages import Message, headers_of
from gemhooks.queues.listening import listen
from gemhooks.settings import Settings
from gemhooks.simulator import Simulator
from gemhooks.testing import body
from handbook import contract
from tests.docs.pages import DOCS
from tests.integration.processes import is_ready, process
from tests.services.ports import free_port
from tests.services.waiting import eventually

SCHEMA = Draft202012Validator(contract.schema())
HEADERS = Draft202012Validator(contract.asyncapi()["components"]["schemas"]["Headers"])
EXPECTED = {
    "interaction.requires_action",
    "interaction.completed",
    "batch.succeeded",
    "video.generated",
    "interaction.fetched",
    "batch.fetched",
    "batch.row",
    "video.fetched",
    "function.called",
    "conversation.message",
}


@pytest.mark.parametrize("kind", events.BY_TYPE)
def test_every_type_has_its_schema(kind: str) -> None:
    SCHEMA.validate(orjson.loads(body(kind)))
    with pytest.raises(ValidationError):
        SCHEMA.validate({"type": kind, "data": {"id": 1}})


def test_the_schemas_are_schemas() -> None:
    Draft202012Validator.check_schema(contract.schema())
    Draft202012Validator.check_schema(HEADERS.schema)


def test_asyncapi_names_every_type_once_in_its_exchange() -> None:
    written = yaml.safe_load((DOCS / "reference" / "asyncapi.yaml").read_text("utf-8"))

    for name, exchange in (("events", topology.EVENTS), ("results", topology.RESULTS)):
        channel = written["channels"][name]
        assert channel["bindings"]["amqp"]["exchange"]["name"] == exchange
        kinds = {each.__name__ for each in events.KNOWN if each.exchange == exchange}
        assert set(channel["messages"]) == kinds
    assert all(resolves(each, written) for each in references(written))


def references(node: Any) -> Iterator[str]:
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        if key == "$ref":
            yield value
        elif isinstance(value, dict | list):
            yield from references(value)


def resolves(reference: str, written: Any) -> bool:
    file, _, path = reference.partition("#/")
    node = orjson.loads((DOCS / "reference" / file).read_bytes()) if file else written
    for name in path.split("/"):
        node = node[name]
    return isinstance(node, dict)


@pytest.fixture
def published(tmp_path: Path) -> Sequence[Message]:
    """What a receiver and workers publish of one job of each kind, in the order of its coming."""
    port, admins = free_port(), (free_port(), free_port())
    with ExitStack() as stack:
        gemini = stack.enter_context(Simulator(delay=0.05, scripts=scripts()))
        env = {
            "GEMHOOKS_BROKER_URL": f"sqlite:///{tmp_path}/queue.db",
            "GEMHOOKS_DATABASE_URL": f"sqlite:///{tmp_path}/ledger.db",
            "GEMHOOKS_RESULTS_URL": str(tmp_path / "results"),
            "GEMHOOKS_GEMINI_BASE_URL": gemini.url,
            "GEMHOOKS_FETCH_HOSTS": "127.0.0.1",
            "GEMHOOKS_FUNCTIONS": "examples.tools:functions",
            "GEMHOOKS_CONVERSATIONS": "1",
            "GEMHOOKS_BATCH_ROWS": "1",
            "GEMINI_API_KEY": "any",
            "GEMINI_WEBHOOK_SECRET": gemini.subscribe(f"http://127.0.0.1:{port}/webhooks/gemini"),
            "GEMHOOKS_PORT": str(port),
        }
        for program, admin in zip(("receiver", "workers"), admins, strict=True):
            more = {**env, "GEMHOOKS_ADMIN_PORT": str(admin)}
            stack.enter_context(process(program, log=tmp_path / "log", env=more))
        for admin in admins:
            eventually(is_ready(admin), why=(tmp_path / "log").read_text("utf-8"))
        heard: list[Message] = []
        ready = threading.Event()
        threading.Thread(
            target=hear, args=(env["GEMHOOKS_BROKER_URL"], heard, ready), daemon=True
        ).start()
        assert ready.wait(60)
        with jobs.connect(Settings.from_env(env)) as start:
            start.interaction(model="gemini-3.8-flash", input="weather and a table?")
            rows = [{"contents": [{"parts": [{"text": "hello"}]}]}]
            start.batch(model="gemini-3.8-flash", src=rows)
            start.video(model="veo-3.1-generate-preview", prompt="a dog")
        eventually(lambda: {each.type for each in heard} >= EXPECTED, why=f"{heard}")
    return heard


def hear(url: str, heard: list[Message], ready: threading.Event) -> None:
    """Until *heard* is complete, so that the queue is gone before its file is."""
    with closing(listen(url, ready.set)) as messages:
        for each in messages:
            heard.append(each)
            if {each.type for each in heard} >= EXPECTED:
                return


def test_what_is_really_published_is_as_the_contract_says(published: Sequence[Message]) -> None:
    for each in published:
        SCHEMA.validate(orjson.loads(each.body))
        HEADERS.validate(headers_of(each))
        assert type(events.parse(each.body)) is events.BY_TYPE[each.type]
