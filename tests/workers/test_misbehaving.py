"""The fetchers while Gemini, or what is in front of it, misbehaves."""

import io
import logging
import traceback
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import orjson
import pytest
from prometheus_client import CollectorRegistry

from gemhooks import logs
from gemhooks.errors import GemhooksError, Gone, NotYet, Refused, Retry
from gemhooks.gemini import Gemini
from gemhooks.metrics import ResultMetrics
from gemhooks.results import ResultsStore
from gemhooks.simulator import BatchPlan, Faults, Simulator
from gemhooks.simulator.faults import Rule
from tests.services.waiting import wait_until
from tests.workers.fetching import MemoryIndex, MemoryJobs, MemoryPublisher, ask, event
from workers.batches import BatchFetcher

KEY = "AIza-not-a-real-key-0123456789"
ROWS, ROW_BYTES = 4000, 2000
DOWNLOAD, LOOK = "GET /v1/files/batch-", "GET /v1/batches/"


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with Simulator(delay=0.0, batches=[BatchPlan(rows=ROWS, row_bytes=ROW_BYTES)]) as simulator:
        yield simulator


@pytest.fixture
def gemini(simulator: Simulator) -> Iterator[Gemini]:
    with closing(Gemini(KEY, base_url=simulator.url, timeout=5.0)) as gemini:
        yield gemini


@pytest.fixture
def batch_id(simulator: Simulator, gemini: Gemini) -> str:
    body = {"batch": {"displayName": "x", "inputConfig": {"fileName": "files/none"}}}
    name = ask(f"{simulator.url}/v1/models/m:batchGenerateContent", body)["name"]
    wait_until(lambda: gemini.operations.get(name).get("done"), "the batch")
    return str(name)


@pytest.fixture
def fetcher(tmp_path: Path, gemini: Gemini) -> BatchFetcher:
    return BatchFetcher(
        gemini.operations,
        gemini.files,
        ResultsStore(str(tmp_path)),
        MemoryIndex(),
        MemoryPublisher(),
        MemoryJobs(),
        ResultMetrics(CollectorRegistry()),
    )


def rows_in(folder: Path) -> int:
    (stored,) = folder.glob("batches/*/rows.jsonl")
    lines = stored.read_bytes().splitlines()
    keys = {orjson.loads(line)["key"] for line in lines}
    assert len(keys) == len(lines)
    return len(lines)


@pytest.mark.parametrize("drop", ["middle", "stall"])
def test_a_download_that_breaks_off_is_gone_on_with(
    tmp_path: Path, simulator: Simulator, fetcher: BatchFetcher, batch_id: str, drop: str
) -> None:
    rule = Rule.model_validate({"when": DOWNLOAD, "drop": drop, "first": 2})
    simulator.faults = Faults(rules=(rule,))

    fetcher.fetch(event("batch.succeeded", id=batch_id))

    assert rows_in(tmp_path) == ROWS


@pytest.mark.parametrize(
    "case",
    [
        (Rule(when=LOOK, drop="before"), Retry),
        (Rule(when=LOOK, drop="stall"), Retry),
        (Rule(when=LOOK, status=503), Retry),
        (Rule(when=LOOK, status=403), Refused),
        (Rule(when=LOOK, body="null"), Retry),
        (Rule(when=LOOK, body="[]"), Retry),
        (Rule(when=LOOK, body='{"name":"batches/other"}'), Retry),
        (Rule(when=LOOK, status=302, location="https://evil.test/x"), Refused),
        (Rule(when=DOWNLOAD, drop="before"), Retry),
        (Rule(when=DOWNLOAD, status=429, retry_after=7), Retry),
        (Rule(when=DOWNLOAD, status=500), Retry),
        (Rule(when=DOWNLOAD, status=400), Refused),
        (Rule(when=DOWNLOAD, status=404), NotYet),
        (Rule(when=DOWNLOAD, status=410), Gone),
        (Rule(when=DOWNLOAD, status=302, location="http://127.0.0.1:1/x"), Refused),
        (Rule(when=DOWNLOAD, status=302, location="https://169.254.169.254/x"), Refused),
        (Rule(when=DOWNLOAD, status=302, location=f"https://evil.test/x?key={KEY}"), Refused),
    ],
)
def test_what_cannot_be_fetched_is_told_and_leaves_nothing_half(
    tmp_path: Path,
    simulator: Simulator,
    fetcher: BatchFetcher,
    batch_id: str,
    case: tuple[Rule, type[GemhooksError]],
) -> None:
    rule, error = case
    simulator.faults = Faults(rules=(rule,))
    stream, handler = io.StringIO(), logging.StreamHandler()
    handler.setStream(stream)
    logging.getLogger().addHandler(handler)

    try:
        with pytest.raises(error) as caught:
            fetcher.fetch(event("batch.succeeded", id=batch_id))
    finally:
        logging.getLogger().removeHandler(handler)

    assert not list(tmp_path.glob("batches/*/*"))
    assert not getattr(fetcher.publisher, "published", None)
    told = logs.redact("".join(traceback.format_exception(caught.value)))
    assert KEY not in told
    assert KEY not in stream.getvalue()
    if rule.retry_after is not None and isinstance(caught.value, Retry):
        assert caught.value.at_least == 7

    simulator.faults = Faults()  # and the next attempt makes it good
    fetcher.fetch(event("batch.succeeded", id=batch_id))
    assert rows_in(tmp_path) == ROWS


def test_a_job_is_looked_up_and_its_file_fetched_and_nothing_is_started(
    simulator: Simulator, fetcher: BatchFetcher, batch_id: str
) -> None:
    creating = Rule(when="POST /v1/models", status=500)
    failing = Rule(when=DOWNLOAD, status=500)
    simulator.faults = Faults(rules=(failing, creating))

    for _ in range(20):
        with pytest.raises(Retry, match="500"):
            fetcher.fetch(event("batch.succeeded", id=batch_id))


def test_a_full_disk_is_tried_later_and_goes_on_where_it_was(
    tmp_path: Path, fetcher: BatchFetcher, batch_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(Retry, match="the disk is full"):
            fetcher.fetch(event("batch.succeeded", id=batch_id))
    assert not list(tmp_path.glob("batches/*/*"))

    fetcher.fetch(event("batch.succeeded", id=batch_id))

    assert rows_in(tmp_path) == ROWS
