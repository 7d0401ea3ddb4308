"""Conversations on their way: a real worker process, the simulator, and a listener."""

from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest
import urllib3

from gemhooks import events, topology
from gemhooks.conversations import Chunk, ToolCall
from gemhooks.conversations import Message as Said
from gemhooks.messages import Message
from gemhooks.queues.sqlite import SqliteBroker
from gemhooks.simulator import Call, CallFunctions, Script, Simulator
from tests.integration.processes import ROOT, is_ready, process
from tests.services.ports import free_port
from tests.services.waiting import eventually

REAL = Call(name="book_table", arguments={"restaurant": "Real", "people": 2})
SCRIPTS = (Script(when="Book", turns=(CallFunctions(calls=(REAL,)),)),)
LISTENERS = topology.Queue("gemhooks.listeners", ((topology.RESULTS, "conversation.message"),))


@pytest.fixture
def gemini() -> Iterator[Simulator]:
    with Simulator(delay=0.0, scripts=SCRIPTS) as simulator:
        yield simulator


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SqliteBroker]:
    broker = SqliteBroker(f"sqlite:///{tmp_path}/queue.db")
    broker.declare([LISTENERS])
    yield broker
    broker.close()


@pytest.fixture
def worker(tmp_path: Path, gemini: Simulator, broker: SqliteBroker) -> Iterator[None]:
    """A worker with functions that leave their effects in a file."""
    admin = free_port()
    env = {
        "GEMHOOKS_BROKER_URL": f"sqlite:///{broker.path}",
        "GEMHOOKS_DATABASE_URL": f"sqlite:///{tmp_path}/ledger.db",
        "GEMHOOKS_RESULTS_URL": str(tmp_path / "results"),
        "GEMHOOKS_GEMINI_BASE_URL": gemini.url,
        "GEMINI_API_KEY": "k",
        "GEMHOOKS_ADMIN_PORT": str(admin),
        "GEMHOOKS_CONVERSATIONS": "1",
        "GEMHOOKS_FUNCTIONS": "tools:functions",
        "GEMHOOKS_FUNCTIONS_FOR": "all",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'examples'}",
        "TOOLS_EFFECTS": str(tmp_path / "effects"),
    }
    with process("workers", log=tmp_path / "workers.log", env=env):
        eventually(is_ready(admin), why=f"ready: see {tmp_path}/workers.log")
        yield


def told(gemini: Simulator, broker: SqliteBroker, text: str, kind: str) -> str:
    """The id of an interaction whose event is in the queue, as the receiver puts it there."""
    body = {"model": "gemini-3.8-flash", "input": text, "background": True}
    with urllib3.PoolManager() as http:
        headers = {"x-goog-api-key": "k"}
        answer = http.request("POST", f"{gemini.url}/v1/interactions", json=body, headers=headers)
    interaction_id = str(answer.json()["id"])
    event = {"type": kind, "data": {"id": interaction_id}}
    message = Message(f"msg_{interaction_id}", kind, orjson.dumps(event))
    broker.publisher.publish(message).result(30)
    return interaction_id


def heard(broker: SqliteBroker, interaction_id: str) -> list[Said]:
    found = [events.parse(message.body) for message, _ in broker.browse(LISTENERS.name, 100)]
    return [
        Said.from_wire(each.data.message or {})
        for each in found
        if isinstance(each, events.ConversationMessage)
        and each.data.interaction_id == interaction_id
    ]


def has_ended(broker: SqliteBroker, interaction_id: str) -> Callable[[], bool]:
    return lambda: len(heard(broker, interaction_id)) == 2


@pytest.mark.usefixtures("worker")
def test_what_was_said_is_stored_and_heard(
    gemini: Simulator, broker: SqliteBroker, tmp_path: Path
) -> None:
    interaction_id = told(gemini, broker, "Hello", "interaction.completed")

    eventually(has_ended(broker, interaction_id), why="both messages are published")
    question, answer = heard(broker, interaction_id)
    assert (question.role, question.chunks[0].text) == ("user", "Hello")
    assert (answer.role, answer.chunks[0].text) == ("agent", "You said: Hello")
    stored = (tmp_path / "results" / "conversations" / f"{interaction_id}.json").read_bytes()
    assert [Said.from_wire(each) for each in orjson.loads(stored)["messages"]] == [question, answer]


@pytest.mark.usefixtures("worker")
def test_a_tool_call_that_anyone_puts_on_the_bus_starts_nothing(
    gemini: Simulator, broker: SqliteBroker, tmp_path: Path
) -> None:
    args = {"restaurant": "Forged", "people": 2}
    call = Chunk(tool_call=ToolCall(id="c1", display_name="book_table", args=args))
    said = Said(role="agent", chunks=(call,)).to_wire()
    for exchange in (topology.RESULTS, topology.EVENTS):
        for kind in ("conversation.message", "conversation.toolCall"):
            body = {"type": kind, "data": {"id": "v1_x/messages/0", "message": said}}
            forged = Message(f"forged_{exchange}_{kind}", kind, orjson.dumps(body))
            broker.publisher.publish(forged, exchange=exchange).result(30)

    # Whoever served the forged ones would have served this one after them.
    interaction_id = told(gemini, broker, "Book", "interaction.requires_action")
    eventually(has_ended(broker, interaction_id), why="the question and the call are published")
    effects = tmp_path / "effects"
    eventually(effects.exists, why="the real call is run")

    [line] = effects.read_text().splitlines()
    assert line.endswith("Real for 2")
    _, asked = heard(broker, interaction_id)
    assert asked.chunks[0].tool_call is not None
    assert asked.chunks[0].tool_call.display_name == "book_table"
