"""Messages are claimed ahead of their handlers and marked behind them, and nobody waits for it."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from gemhooks import Consumers, events
from gemhooks.bookkeeping import Bookkeeper
from gemhooks.errors import LedgerUnavailable
from gemhooks.messages import Claim, Claimed, DeadLetter, Message
from gemhooks.metrics import WorkerMetrics
from gemhooks.runner import Runner, Work
from tests.services.waiting import eventually

GRANTED, DONE = Claimed(Claim.GRANTED), Claimed(Claim.DONE)


@dataclass
class Story:
    """What happened, in order, told by all parts."""

    told: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, line: str) -> None:
        with self.lock:
            self.told.append(line)

    def wait_for(self, line: str) -> None:
        eventually(lambda: line in self.told, why=line)


@dataclass
class ToldDelivery:
    story: Story
    message: Message
    redelivered: bool = False

    def ack(self) -> None:
        self.story.tell(f"ack {self.message.id}")

    def later(self, message: Message, *, after: float) -> None:
        self.story.tell(f"later {message.id} {message.attempt}")

    def dead(self, letter: DeadLetter) -> None:
        self.story.tell(f"dead {self.message.id}")

    def give_back(self) -> None:
        self.story.tell(f"back {self.message.id}")


@dataclass
class ToldLedger:
    """Answers as told; away for the next *away* questions."""

    story: Story
    answers: dict[str, Claimed | None] = field(default_factory=dict)
    away: int = 0

    def _be_there(self) -> None:
        self.away -= 1
        if self.away >= 0:
            raise LedgerUnavailable("connection refused")

    def claim(self, queue: str, key: str, *, redelivered: bool) -> Claimed:
        self.story.tell(f"claim {key}")
        return GRANTED

    def claim_new(self, queue: str, *keys: str) -> list[Claimed | None]:
        self._be_there()
        self.story.tell(f"claim ahead {' '.join(keys)}")
        return [self.answers.get(key, GRANTED) for key in keys]

    def holds(self, queue: str, key: str) -> bool:
        return True

    def done(self, queue: str, *keys: str) -> None:
        self._be_there()
        self.story.tell(f"done {' '.join(keys)}")

    def release(self, queue: str, *keys: str, ended: bool = True) -> None:
        self.story.tell(f"release {' '.join(keys)}")


def runner_of(story: Story, ledger: ToldLedger, handler: Callable[[str], None]) -> Runner:
    consumers = Consumers()

    def handle(event: events.BatchFailed) -> None:
        story.tell(f"handle {event.data.id}")
        handler(event.data.id)

    consumers.add(events.BatchFailed, handle, queue="q")
    (subscription,) = consumers
    metrics = WorkerMetrics(CollectorRegistry())
    return Runner(subscription, ledger, metrics, schedule=(5.0,), jitter=lambda: 0.0)


@contextmanager
def kept(
    ledger: ToldLedger, handler: Callable[[str], None] = lambda _: None
) -> Iterator[Callable[[str], None]]:
    """A bookkeeper whose messages begin at once; what is given takes the next one."""
    book = Bookkeeper(runner_of(ledger.story, ledger, handler), Runner.run)

    def take(name: str) -> None:
        body = json.dumps({"type": "batch.failed", "data": {"id": name}}).encode()
        book.take(Work(ToldDelivery(ledger.story, Message(name, "batch.failed", body))))

    try:
        yield take
    finally:
        assert book.close(30)


def test_a_message_is_claimed_handled_marked_and_acknowledged_in_this_order() -> None:
    story = Story()
    with kept(ToldLedger(story)) as take:
        take("a")
        story.wait_for("ack a")
    assert story.told == ["claim ahead a", "handle a", "done a", "ack a"]


def test_what_comes_while_the_ledger_is_asked_is_claimed_together() -> None:
    story, entered, leave = Story(), threading.Event(), threading.Event()

    def handler(name: str) -> None:
        if name == "a":
            entered.set()
            leave.wait(30)

    with kept(ToldLedger(story), handler) as take:
        take("a")
        assert entered.wait(30)  # on the claiming thread: it asks for no other meanwhile
        take("b")
        take("c")
        leave.set()
        story.wait_for("ack c")
    assert "claim ahead b c" in story.told


def test_what_was_done_before_is_acknowledged_unhandled() -> None:
    story = Story()
    with kept(ToldLedger(story, {"a": DONE})) as take:
        take("a")
        story.wait_for("ack a")
    assert story.told == ["claim ahead a", "ack a"]


def test_what_cannot_be_claimed_ahead_is_claimed_when_it_begins() -> None:
    story = Story()
    with kept(ToldLedger(story, {"a": None})) as take:
        take("a")
        story.wait_for("ack a")
    assert story.told == ["claim ahead a", "claim a", "handle a", "done a", "ack a"]


def test_what_fails_is_released_before_it_is_put_back() -> None:
    story = Story()

    def handler(name: str) -> None:
        raise ValueError(name)

    with kept(ToldLedger(story), handler) as take:
        take("a")
        story.wait_for("later a 2")
    assert story.told == ["claim ahead a", "handle a", "release a", "later a 2"]


def test_nothing_begins_while_the_ledger_is_away() -> None:
    story = Story()
    with kept(ToldLedger(story, away=1)) as take:
        take("a")
        story.wait_for("later a 1")
    assert story.told == ["later a 1"]


def test_what_is_done_is_marked_as_soon_as_the_ledger_is_back() -> None:
    story = Story()
    ledger = ToldLedger(story)

    def handler(_: str) -> None:
        ledger.away = 2

    with kept(ledger, handler) as take:
        take("a")
        story.wait_for("ack a")
    assert story.told == ["claim ahead a", "handle a", "done a", "ack a"]
