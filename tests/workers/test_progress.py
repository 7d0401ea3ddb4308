from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from gemhooks import events
from gemhooks.consumers import Consumers
from gemhooks.errors import LedgerUnavailable
from gemhooks.ledger.null import NullLedger
from gemhooks.messages import Message
from gemhooks.metrics import WorkerMetrics
from gemhooks.results import Partial
from gemhooks.runner import Fate, Outcome, Runner
from tests.workers.fetching import MemoryFiles
from workers.downloading import WORTH, Downloading, NoSink
from workers.progress import Progress

BODY = b'{"type": "batch.succeeded", "data": {"id": "batches/b"}}'


class KeptStarts:
    """Remembers whose starts are forgotten."""

    def __init__(self, *, away: bool = False) -> None:
        self.away = away
        self.forgotten: list[tuple[str, str]] = []

    def forget_starts(self, queue: str, key: str, /) -> None:
        if self.away:
            raise LedgerUnavailable("connection refused")
        self.forgotten.append((queue, key))


def runner_of(progress: Progress) -> Runner:
    consumers = Consumers(once_per_resource=True)
    consumers.add(events.BatchEvent, lambda _: progress.note(), queue=progress.queue)
    (subscription,) = consumers
    return Runner(subscription, NullLedger(), WorkerMetrics(CollectorRegistry()), schedule=(1.0,))


def test_what_is_noted_is_what_the_runner_has_claimed() -> None:
    starts = KeptStarts()
    runner = runner_of(Progress(starts, "gemhooks.batches"))
    message = Message("msg_1", "batch.succeeded", BODY)

    runner.decide(message)

    assert starts.forgotten == [("gemhooks.batches", runner.key_of(message))]


def test_a_ledger_that_is_away_disturbs_no_download() -> None:
    runner = runner_of(Progress(KeptStarts(away=True), "gemhooks.batches"))

    assert runner.decide(Message("msg_1", "batch.succeeded", BODY)) == Outcome(Fate.DONE)


def test_outside_of_a_handler_there_is_nothing_to_note() -> None:
    starts = KeptStarts()
    Progress(starts, "gemhooks.batches").note()

    assert not starts.forgotten


@pytest.mark.parametrize(("there", "noted"), [(0, 1), (WORTH, 0)])
def test_a_download_has_got_further_once_it_brought_something_new(
    tmp_path: Path, there: int, noted: int
) -> None:
    whole, said = bytes(2 * WORTH - 1), list[None]()
    (tmp_path / "partial").write_bytes(whole[:there])
    with Partial.open(tmp_path / "partial") as partial:
        Downloading(
            MemoryFiles({"files/a": whole}),
            "files/a",
            partial,
            NoSink(),
            further=lambda: said.append(None),
        ).run()

    assert len(said) == noted
