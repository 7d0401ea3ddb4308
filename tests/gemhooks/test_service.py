"""A worker that is told to stop, and what it leaves to others."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from gemhooks import Consumers, events
from gemhooks.ledger import Ledgers, NullLedger, open_ledger
from gemhooks.messages import Claim, Claimed, Delivery, Ledger, Message
from gemhooks.metrics import WorkerMetrics
from gemhooks.queues.sqlite import SqliteBroker
from gemhooks.service import Service
from gemhooks.settings import Settings
from tests.services.waiting import eventually

QUEUE = "gemhooks.q"
IDS = ("msg_0", "msg_1", "msg_2", "msg_3", "msg_4")


@dataclass
class Blocked:
    """A service whose one thread is busy with the first message until it may leave."""

    folder: Path
    begun: list[str] = field(default_factory=list)
    leave: threading.Event = field(default_factory=threading.Event)

    def service(self, ledger: Ledger) -> Service:
        consumers = Consumers()

        @consumers.on(events.BatchFailed, queue=QUEUE)
        def block(event: events.BatchFailed) -> None:
            self.begun.append(event.data.id)
            assert self.leave.wait(300)

        settings = Settings(concurrency=1, prefetch=len(IDS), grace=300)
        metrics = WorkerMetrics(CollectorRegistry())
        return Service(consumers, self.broker(), ledger, metrics, settings)

    def broker(self) -> SqliteBroker:
        return SqliteBroker(f"sqlite:///{self.folder}/queue.db")

    def ledgers(self) -> Ledgers:
        return open_ledger(f"sqlite:///{self.folder}/ledger.db")


@pytest.fixture
def blocked(tmp_path: Path) -> Iterator[Blocked]:
    made = Blocked(tmp_path)
    yield made
    made.leave.set()


def send(broker: SqliteBroker) -> None:
    for each in IDS:
        body = json.dumps({"type": "batch.failed", "data": {"id": each}}).encode()
        broker.send(QUEUE, Message(each, "batch.failed", body)).result(30)


def test_what_never_began_goes_back_untouched_and_may_be_claimed_at_once(blocked: Blocked) -> None:
    with closing(blocked.ledgers()) as mine, closing(blocked.ledgers()) as others:
        service = blocked.service(mine.handled)
        service.start()
        with closing(blocked.broker()) as sender:
            send(sender)
        eventually(lambda: all(mine.handled.is_known(QUEUE, each) for each in IDS), why="claimed")
        eventually(lambda: blocked.begun == ["msg_0"], why="the first runs")
        assert others.handled.claim_new(QUEUE, *IDS) == [None] * len(IDS)

        stopping = threading.Thread(target=service.stop)
        stopping.start()
        free = set[str]()

        def are_free() -> bool:  # given back together or one by one
            for each in {*IDS} - free:
                if others.handled.claim_new(QUEUE, each) == [Claimed(Claim.GRANTED)]:
                    free.add(each)
            return free == {*IDS[1:]}

        eventually(are_free, why="all but it are free")
        blocked.leave.set()
        stopping.join(60)

        assert mine.handled.is_done(QUEUE, "msg_0")
        assert blocked.begun == ["msg_0"]
    with closing(blocked.broker()) as later:
        waiting = [message for message, _ in later.browse(QUEUE, 10)]
        assert [(each.id, each.attempt) for each in waiting] == [(each, 1) for each in IDS[1:]]


def test_without_a_ledger_what_never_began_is_no_suspect_of_who_takes_it_next(
    blocked: Blocked,
) -> None:
    service = blocked.service(NullLedger())
    service.start()
    with closing(blocked.broker()) as sender:
        send(sender)
    eventually(lambda: blocked.begun == ["msg_0"], why="the first runs")

    stopping = threading.Thread(target=service.stop)
    stopping.start()
    came = list[Delivery]()
    with closing(blocked.broker()) as other:
        other.consume(QUEUE, came.append, prefetch=len(IDS))
        eventually(lambda: len(came) == len(IDS) - 1, why="the rest came")
    blocked.leave.set()
    stopping.join(60)

    assert sorted(each.message.id for each in came if not each.redelivered) == list(IDS[1:])
    assert {each.message.attempt for each in came} == {1}
    assert blocked.begun == ["msg_0"]
