from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from gemhooks import events, topology
from gemhooks.conversations import Message as Said
from gemhooks.conversations import to_messages
from gemhooks.errors import PublishFailed
from gemhooks.gemini import FetchedInteraction
from gemhooks.messages import Message, Publisher
from gemhooks.queues.sqlite import SqliteBroker
from gemhooks.results import ResultsStore
from workers import conversations
from workers.announcing import MOST_UNCONFIRMED, announce
from workers.conversations import ConversationTeller

LISTENERS = topology.Queue("gemhooks.listeners", ((topology.RESULTS, "conversation.message"),))
EVENT = {
    "type": "interaction.completed",
    "timestamp": "2026-11-30T07:00:00Z",
    "data": {"id": "v1_a", "user_metadata": {"job": "7", "traceparent": "00-a-b-01"}},
}
INTERACTION: dict[str, Any] = {
    "id": "v1_a",
    "status": "completed",
    "previous_interaction_id": "v1_0",
    "steps": [
        {"type": "user_input", "content": [{"type": "text", "text": "Weather in Bern?"}]},
        {"type": "model_output", "content": [{"type": "text", "text": "Seven degrees."}]},
    ],
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SqliteBroker]:
    broker = SqliteBroker(f"sqlite:///{tmp_path}/queue.db")
    broker.declare([LISTENERS])
    yield broker
    broker.close()


@pytest.fixture
def results(tmp_path: Path) -> ResultsStore:
    return ResultsStore(str(tmp_path / "results"))


def tell(results: ResultsStore, publisher: Publisher, interaction: dict[str, Any]) -> None:
    event = events.parse(orjson.dumps(EVENT))
    fetched = FetchedInteraction("v1_a", orjson.dumps(interaction), interaction)
    ConversationTeller(results, publisher).tell(event, fetched)


def heard(broker: SqliteBroker) -> list[events.ConversationMessage]:
    found = [events.parse(message.body) for message, _ in broker.browse(LISTENERS.name, 100)]
    return [each for each in found if isinstance(each, events.ConversationMessage)]


def test_a_conversation_is_stored_whole(broker: SqliteBroker, results: ResultsStore) -> None:
    tell(results, broker, INTERACTION)

    stored = orjson.loads(results.read("conversations", "v1_a", "json") or b"")
    assert stored["interaction_id"] == "v1_a"
    assert stored["previous_interaction_id"] == "v1_0"
    assert [Said.from_wire(each) for each in stored["messages"]] == to_messages(INTERACTION)


def test_each_message_is_published_with_its_place(
    broker: SqliteBroker, results: ResultsStore, tmp_path: Path
) -> None:
    tell(results, broker, INTERACTION)

    question, answer = heard(broker)
    assert [Said.from_wire(each.data.message or {}) for each in (question, answer)] == (
        to_messages(INTERACTION)
    )
    assert (question.data.index, answer.data.index, answer.data.count) == (0, 1, 2)
    assert answer.data.id == "v1_a/messages/1"
    assert answer.data.interaction_id == "v1_a"
    assert answer.data.previous_interaction_id == "v1_0"
    assert answer.data.user_metadata["job"] == "7"
    assert answer.data.result_url == f"file://{tmp_path}/results/conversations/v1_a.json"
    assert (answer.version, answer.timestamp) == ("1", "2026-11-30T07:00:00Z")


def test_a_second_attempt_publishes_under_the_same_ids(
    broker: SqliteBroker, results: ResultsStore
) -> None:
    tell(results, broker, INTERACTION)
    tell(results, broker, INTERACTION)

    messages = [message for message, _ in broker.browse(LISTENERS.name, 100)]
    assert [each.id for each in messages] == [
        "v1_a/messages/0/conversation.message",
        "v1_a/messages/1/conversation.message",
    ] * 2
    assert {each.routing_key for each in messages} == {"conversation.message"}
    assert {each.traceparent for each in messages} == {"00-a-b-01"}


def test_two_messages_of_an_interaction_are_two_resources(
    broker: SqliteBroker, results: ResultsStore
) -> None:
    tell(results, broker, INTERACTION)

    assert len({each.subject for each in heard(broker)}) == 2


def test_of_a_large_message_only_the_place_is_published(
    broker: SqliteBroker, results: ResultsStore
) -> None:
    film = {"type": "video", "mime_type": "video/mp4", "data": "AAAA" * 400_000}
    steps = [{"type": "model_output", "content": [film]}, INTERACTION["steps"][1]]

    tell(results, broker, INTERACTION | {"steps": steps})

    large, small = heard(broker)
    assert large.data.message is None
    assert small.data.message is not None
    stored = orjson.loads(results.read("conversations", "v1_a", "json") or b"")
    assert stored["messages"][large.data.index]["chunks"][0]["blob"]["data"] == film["data"]


@dataclass
class DeafBroker:
    """Confirms what it is told to and no more."""

    confirms: int
    published: list[Message] = field(default_factory=list)

    def publish(self, message: Message, *, exchange: str = topology.EVENTS) -> Future[None]:
        assert exchange == topology.RESULTS
        self.published.append(message)
        future: Future[None] = Future()
        if len(self.published) <= self.confirms:
            future.set_result(None)
        else:
            future.set_exception(PublishFailed("disconnected"))
        return future


def test_what_is_not_confirmed_is_told_again(results: ResultsStore) -> None:
    with pytest.raises(PublishFailed, match="disconnected"):
        tell(results, DeafBroker(confirms=1), INTERACTION)


def test_a_broker_that_is_away_is_not_sent_the_whole_conversation() -> None:
    broker = DeafBroker(confirms=10)
    messages = (Message(str(number), "conversation.message", b"{}") for number in range(5000))

    with pytest.raises(PublishFailed):
        announce(broker, messages)

    assert len(broker.published) <= 10 + MOST_UNCONFIRMED


def test_nothing_of_ours_listens_to_conversations() -> None:
    bindings = [binding for queue in topology.BUILT_IN for binding in queue.bindings]

    assert conversations.TYPE in events.ConversationMessage.types
    for _, pattern in bindings:
        assert not topology.matches(pattern, conversations.TYPE)
