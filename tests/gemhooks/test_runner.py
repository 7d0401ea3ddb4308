"""The life of one message in a worker's hands, without a broker."""

import json
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from gemhooks import Consumers, NotYet, Reject, Retry, current_message, events, logs, publish
from gemhooks.errors import LedgerUnavailable, PublishFailed
from gemhooks.ledger import NullLedger
from gemhooks.messages import Claim, Claimed, DeadLetter, Ledger, Message, Publisher, Source
from gemhooks.metrics import WorkerMetrics
from gemhooks.runner import MOST_STARTS, SUSPECT, Runner
from gemhooks.testing import MemoryPublisher

SCHEDULE = (5.0, 30.0)


@dataclass
class KeptDelivery:
    """A delivery that remembers how it was settled."""

    message: Message
    redelivered: bool = False
    settled: list[object] = field(default_factory=list)
    again: list[Message] = field(default_factory=list)

    def ack(self) -> None:
        self.settled.append("ack")

    def later(self, message: Message, *, after: float) -> None:
        self.settled.append(("later", message.attempt, after))
        self.again.append(message)

    def dead(self, letter: DeadLetter) -> None:
        self.settled.append(letter)

    def give_back(self) -> None:
        self.settled.append("give_back")


@dataclass
class KeptLedger:
    """A ledger in memory that answers as told, and remembers what it was told."""

    answer: Claimed = field(default_factory=lambda: Claimed(Claim.GRANTED))
    away: bool = False
    away_for_marks: int = 0
    calls: list[str] = field(default_factory=list)

    def claim(self, queue: str, key: str, *, redelivered: bool) -> Claimed:
        if self.away:
            raise LedgerUnavailable("connection refused")
        self.calls.append("claim")
        return self.answer

    def claim_new(self, queue: str, *keys: str) -> list[Claimed | None]:
        return [self.claim(queue, key, redelivered=False) for key in keys]

    def holds(self, queue: str, key: str) -> bool:
        return True

    def done(self, queue: str, *keys: str) -> None:
        self.away_for_marks -= 1
        if self.away_for_marks >= 0:
            raise LedgerUnavailable("connection refused")
        self.calls.append("done")

    def release(self, queue: str, *keys: str, ended: bool = True) -> None:
        self.calls.append("release" if ended else "put back")


def message(attempt: int = 1, trust: str = "body", event_type: str = "batch.failed") -> Message:
    body = json.dumps({"type": event_type, "data": {"id": "b"}}).encode()
    return Message("msg_1", event_type, body, attempt=attempt, trust=trust)


def claimed_as(*given: Message, once_per_resource: bool) -> set[str]:
    consumers = Consumers(once_per_resource=once_per_resource)
    consumers.add(events.BatchEvent, nothing, queue="q")
    (subscription,) = consumers
    runner = Runner(
        subscription, KeptLedger(), WorkerMetrics(CollectorRegistry()), schedule=SCHEDULE
    )
    return {runner.key_of(each) for each in given}


def test_a_polled_event_and_the_late_real_one_are_claimed_as_one() -> None:
    real = message(event_type="batch.succeeded")
    polled = replace(message(event_type="batch.completed"), id="poll/1", source=Source.POLL)

    assert len(claimed_as(real, polled, once_per_resource=True)) == 1
    assert len(claimed_as(real, polled, once_per_resource=False)) == 2
    assert len(claimed_as(real, replace(real, replay=1), once_per_resource=True)) == 2
    assert len(claimed_as(real, message(), once_per_resource=True)) == 2


def test_two_results_of_ours_about_one_resource_are_two() -> None:
    first = message(event_type="interaction.waiting")
    second = replace(first, id="msg_2")

    assert claimed_as(first, second, once_per_resource=True) == {"msg_1", "msg_2"}


def test_what_cannot_be_read_is_claimed_by_its_own_id() -> None:
    assert claimed_as(Message("msg_1", "x", b"{"), once_per_resource=True) == {"msg_1"}


def run(
    handler: Callable[[events.BatchFailed], object],
    delivery: KeptDelivery,
    ledger: Ledger | None = None,
    alone: threading.Semaphore | None = None,
    publisher: Publisher | None = None,
) -> list[object]:
    consumers = Consumers()
    consumers.add(events.BatchFailed, handler, queue="q")
    (subscription,) = consumers
    metrics = WorkerMetrics(CollectorRegistry())
    runner = Runner(
        subscription,
        ledger or KeptLedger(),
        metrics,
        schedule=SCHEDULE,
        jitter=lambda: 0.0,
        alone=alone,
        publisher=publisher,
    )
    runner.process(delivery)
    return delivery.settled


def nothing(event: events.BatchEvent) -> None:
    """Take it."""


def raising(error: Exception) -> Callable[[events.BatchFailed], object]:
    def handler(event: events.BatchFailed) -> None:
        raise error

    return handler


def test_a_handled_message_is_marked_done_before_it_is_acknowledged() -> None:
    ledger = KeptLedger()

    assert run(nothing, KeptDelivery(message()), ledger) == ["ack"]
    assert ledger.calls == ["claim", "done"]


@pytest.mark.parametrize(
    ("error", "settled"),
    [
        (Retry("slow"), ("later", 2, 5.0)),
        (Retry("slow", after=77.0), ("later", 2, 77.0)),
        (Retry("slow", after=1.0), ("later", 2, 1.0)),
        (Retry("slow", after=1e9), ("later", 2, 86_400.0)),
        (Retry("busy", at_least=1e9), ("later", 2, 86_400.0)),
        (NotYet("not_found"), ("later", 2, 5.0)),
        (ValueError("a bug"), ("later", 2, 5.0)),
        (Reject("no such shop"), DeadLetter("rejected", "Reject", "no such shop")),
    ],
)
def test_each_way_to_fail_has_its_own_end(error: Exception, settled: object) -> None:
    ledger = KeptLedger()

    assert run(raising(error), KeptDelivery(message()), ledger) == [settled]
    assert ledger.calls == ["claim", "release"]


@pytest.mark.parametrize("at_least", [0.0, 1.0, 30.0, 77.0])
def test_a_least_wait_lengthens_the_wait_of_the_schedule_and_never_shortens_it(
    at_least: float,
) -> None:
    busy = raising(Retry("busy", at_least=at_least))

    for attempt, planned in enumerate(SCHEDULE, start=1):
        settled = run(busy, KeptDelivery(message(attempt)))

        assert settled == [("later", attempt + 1, max(planned, at_least))]


def test_a_wait_of_exactly_so_long_may_have_a_least_one_too() -> None:
    asked = raising(Retry("busy", after=7.0, at_least=9.0))

    assert run(asked, KeptDelivery(message())) == [("later", 2, 9.0)]


def test_the_schedule_ends_in_the_dead_letters() -> None:
    last = KeptDelivery(message(attempt=len(SCHEDULE) + 1))

    assert run(raising(ValueError("a bug")), last) == [DeadLetter("gave_up", "ValueError", "a bug")]


@pytest.mark.parametrize(("most", "attempt"), [(1, 1), (2, 2), (99, len(SCHEDULE) + 1)])
def test_a_handler_may_ask_for_fewer_attempts_than_the_schedule_has(
    most: int, attempt: int
) -> None:
    asked = raising(Retry("slow", most=most, after=7.0))
    before, last = (KeptDelivery(message(attempt=each)) for each in (attempt - 1, attempt))

    assert run(asked, last) == [DeadLetter("gave_up", "Retry", "slow")]
    assert attempt == 1 or run(asked, before) == [("later", attempt, 7.0)]


def test_an_unproven_id_that_gemini_does_not_know_is_soon_given_up() -> None:
    hint = KeptDelivery(message(attempt=3, trust="hint"))

    assert run(raising(NotYet("not_found")), hint) == [
        DeadLetter("not_found", "NotYet", "not_found")
    ]


def test_a_copy_of_what_was_done_is_acknowledged_unhandled() -> None:
    ran: list[object] = []

    settled = run(ran.append, KeptDelivery(message()), KeptLedger(Claimed(Claim.DONE)))

    assert (settled, ran) == (["ack"], [])


def test_a_copy_of_what_is_being_handled_waits_uncounted() -> None:
    ran: list[object] = []

    settled = run(ran.append, KeptDelivery(message(2)), KeptLedger(Claimed(Claim.BUSY)))

    assert (settled, ran) == ([("later", 2, 5.0)], [])


def test_nothing_runs_while_the_ledger_is_away() -> None:
    ran: list[object] = []

    settled = run(ran.append, KeptDelivery(message(2)), KeptLedger(away=True))

    assert (settled, ran) == ([("later", 2, 5.0)], [])


def test_what_is_done_is_not_done_again_because_the_database_blinked() -> None:
    ledger = KeptLedger(away_for_marks=1)

    assert run(nothing, KeptDelivery(message()), ledger) == ["ack"]
    assert ledger.calls == ["claim", "done"]


@pytest.mark.parametrize(
    ("error", "attempt"),
    [
        (PublishFailed("blocked"), 1),
        (LedgerUnavailable("refused"), 1),
        (PublishFailed("too_large"), 2),
        (PublishFailed("returned"), 2),
    ],
)
def test_an_outage_of_ours_is_no_attempt_of_the_message(error: Exception, attempt: int) -> None:
    settled = run(raising(error), KeptDelivery(message()))

    assert settled == [("later", attempt, 5.0)]


def test_a_handler_can_publish_and_knows_that_it_was_confirmed() -> None:
    publisher = MemoryPublisher()

    def handler(event: events.BatchFailed) -> None:
        publish(Message("own/1", "own.kind", b"{}"))

    assert run(handler, KeptDelivery(message()), publisher=publisher) == ["ack"]
    assert [each.id for each in publisher.messages] == ["own/1"]


def test_a_message_that_kills_its_process_is_given_up() -> None:
    ran: list[object] = []
    ledger = KeptLedger(Claimed(Claim.GRANTED, starts=MOST_STARTS + 1, first_at=1_700_000_000.5))

    (letter,) = run(ran.append, KeptDelivery(message(), redelivered=True), ledger)

    assert isinstance(letter, DeadLetter)
    assert (letter.reason, ran) == ("kills_its_process", [])


def test_a_letter_of_one_that_kills_its_process_tells_of_all_its_starts_and_of_the_first() -> None:
    ledger = KeptLedger(Claimed(Claim.GRANTED, starts=MOST_STARTS + 1, first_at=1_700_000_000.5))

    (letter,) = run(nothing, KeptDelivery(message(), redelivered=True), ledger)

    assert isinstance(letter, DeadLetter)
    headers = letter.headers(message(), "gemhooks.q")
    assert headers["gemhooks-dead-error-message"] == "begun 6 times and never ended"
    assert headers["gemhooks-dead-attempts"] == 6
    assert headers["gemhooks-dead-first-at"] == "2023-11-14T22:13:20+00:00"
    assert str(headers["gemhooks-dead-at"]) > "2026"


@pytest.mark.parametrize("body", [b"\x00\xff", b"[]", b'{"type":"batch.failed"}'])
def test_what_can_never_be_read_is_dead_at_once(body: bytes) -> None:
    (letter,) = run(nothing, KeptDelivery(Message("m", "batch.failed", body)))

    assert isinstance(letter, DeadLetter)
    assert letter.reason == "undecodable"


def test_what_nobody_in_the_queue_takes_is_dead_at_once() -> None:
    (letter,) = run(nothing, KeptDelivery(message(event_type="video.generated")))

    assert isinstance(letter, DeadLetter)
    assert letter.reason == "misrouted"


def test_a_message_is_one_line_with_ids_and_no_payload() -> None:
    with capture_logs() as lines:
        run(nothing, KeptDelivery(message()))

    (line,) = lines
    assert (line["event"], line["outcome"], line["attempt"]) == ("message_handled", "done", 1)
    assert line["queue"].startswith("gemhooks.")


def test_the_lines_of_a_handler_say_which_message_they_are_about() -> None:
    seen = list[Mapping[str, str]]()

    run(lambda _: seen.append(logs.about.get()), KeptDelivery(message()))

    (about,) = seen
    assert about == {
        "webhook_id": "msg_1",
        "event_type": "batch.failed",
        "queue": "gemhooks.q",
    }
    assert not logs.about.get()


def test_no_secret_reaches_a_dead_letter() -> None:
    (letter,) = run(
        raising(Reject("key AIzaSyA1234567890abcdefghijklmnopqrstuv")), KeptDelivery(message())
    )

    assert isinstance(letter, DeadLetter)
    assert "AIza" not in letter.error_message


def test_a_suspect_runs_alone_and_one_that_must_wait_is_not_blamed() -> None:
    alone = threading.Semaphore(1)
    suspects = KeptLedger(Claimed(Claim.GRANTED, starts=SUSPECT))
    ran: list[object] = []

    with alone:
        waiting = run(ran.append, KeptDelivery(message()), suspects, alone)
    settled = run(ran.append, KeptDelivery(message()), suspects, alone)

    assert (waiting, settled, len(ran)) == ([("later", 1, 5.0)], ["ack"], 1)
    assert suspects.calls == ["claim", "put back", "claim", "done"]


def test_a_message_that_is_no_suspect_runs_beside_one() -> None:
    alone = threading.Semaphore(1)

    with alone:
        assert run(nothing, KeptDelivery(message()), KeptLedger(), alone) == ["ack"]


def test_without_a_ledger_a_lost_process_counts_as_an_attempt() -> None:
    ran: list[object] = []
    ledger = NullLedger()

    again = run(ran.append, KeptDelivery(message(), redelivered=True), ledger)
    last = KeptDelivery(message(attempt=len(SCHEDULE) + 1), redelivered=True)
    (letter,) = run(ran.append, last, ledger)

    assert (again, ran) == ([("later", 2, 5.0)], [])
    assert isinstance(letter, DeadLetter)
    assert letter.reason == "kills_its_process"


def test_the_first_failure_is_remembered_by_every_later_try() -> None:
    first = KeptDelivery(message())
    run(raising(Retry("slow")), first)
    once = first.again[0]
    second = KeptDelivery(replace(once, first_at=7))
    run(raising(Retry("slow")), second)

    assert once.first_at > 1_700_000_000
    assert second.again[0].first_at == 7


def test_a_handler_can_see_the_message_it_was_called_for() -> None:
    seen: list[tuple[str, int]] = []

    def handler(event: events.BatchFailed) -> None:
        now = current_message()
        seen.append((now.trust, now.attempt))

    run(handler, KeptDelivery(message(attempt=2, trust="hint")))

    assert seen == [("hint", 2)]
    with pytest.raises(LookupError, match="only in a handler"):
        current_message()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"body": "text"}, "body must be bytes, not str"),
        ({"body": {"a": 1}}, "body must be bytes, not dict"),
        ({"id": None}, "id must be str, not NoneType"),
        ({"type": b"own.kind"}, "type must be str, not bytes"),
        ({"timestamp": 1.5}, "timestamp must be int, not float"),
    ],
)
def test_what_is_no_message_is_refused_before_any_broker_sees_it(
    wrong: dict[str, Any], named: str
) -> None:
    """RabbitMQ refuses some of it, without a word of what; SQLite stored text, which none reads."""
    publisher = MemoryPublisher()
    told: list[str] = []

    def handler(event: events.BatchFailed) -> None:
        try:
            publish(replace(Message("own/1", "own.kind", b"{}"), **wrong))
        except TypeError as error:
            told.append(str(error))

    run(handler, KeptDelivery(message()), publisher=publisher)

    assert publisher.messages == []
    assert named in told[0]


def test_a_thread_of_the_handlers_own_is_told_how_to_publish() -> None:
    told: list[str] = []

    def publishing() -> None:
        try:
            publish(message())
        except LookupError as error:
            told.append(str(error))

    def handler(_event: events.BatchFailed) -> None:
        thread = threading.Thread(target=publishing)
        thread.start()
        thread.join()

    run(handler, KeptDelivery(message()))

    assert "copy_context" in told[0]


class Unspeakable(Exception):
    """Says nothing, not even when asked."""

    def __str__(self) -> str:
        raise ValueError("no text")


class Bare(Retry):
    """A user's own, which forgot to call the constructor of its base, or sets fields itself."""

    def __init__(self, *reason: str, **fields: object) -> None:
        if reason:
            super().__init__(*reason)
        vars(self).update(fields)


def mistaken(make: Callable[[], BaseException]) -> Callable[[events.BatchFailed], object]:
    def handler(event: events.BatchFailed) -> None:
        raise make()

    return handler


@pytest.mark.parametrize(
    "make",
    [
        lambda: SystemExit(1),
        Unspeakable,
        lambda: Retry(ValueError("x")),  # type: ignore[arg-type]  # a slip of a user's
        lambda: Retry("x", after="5m"),  # type: ignore[arg-type]  # idem
        lambda: Retry("x", after=timedelta(minutes=5)),  # type: ignore[arg-type]  # idem
        lambda: Retry("x", after=math.nan),
        lambda: Retry("x", after=-1),
        lambda: Retry("x", at_least=-1),
        lambda: Retry("x", most="5"),  # type: ignore[arg-type]  # a slip of a user's
        lambda: Retry("x", after=10**400),
        Bare,
        lambda: Bare("x", after=math.nan),
        lambda: Bare("x", after="5m"),
        lambda: Bare("x", reason=None),
    ],
    ids=[
        *("exit", "no text", "error as reason", "text", "timedelta", "nan", "negative", "least"),
        *("most", "endless", "bare", "nan set", "text set", "no reason"),
    ],
)
@pytest.mark.parametrize("attempt", [1, 3])
def test_whatever_a_handler_raises_the_message_is_settled_and_its_claim_released(
    make: Callable[[], BaseException], attempt: int
) -> None:
    ledger = KeptLedger()

    (settled,) = run(mistaken(make), KeptDelivery(message(attempt)), ledger)

    assert ledger.calls == ["claim", "release"]
    assert isinstance(settled, DeadLetter if attempt > len(SCHEDULE) else tuple)


def test_a_handlers_own_keyboard_interrupt_ends_as_anything_else_that_it_raises() -> None:
    """In a worker's thread nobody pressed Ctrl-C, and a claim that is kept would never end."""
    ledger, delivery = KeptLedger(), KeptDelivery(message())
    thread = threading.Thread(target=run, args=(mistaken(KeyboardInterrupt), delivery, ledger))
    thread.start()
    thread.join()

    assert ledger.calls == ["claim", "release"]
    assert delivery.settled == [("later", 2, 5.0)]


def test_ctrl_c_ends_a_handler_that_is_tried_by_hand() -> None:
    with pytest.raises(KeyboardInterrupt):
        run(mistaken(KeyboardInterrupt), KeptDelivery(message()))
