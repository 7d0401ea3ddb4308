"""Fetches what a batch left, says what it really brought, and tells the results exchange."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
import structlog

from gemhooks import events, heads, jsontext
from gemhooks.batches import Summary, Tally, read_row
from gemhooks.batches.lines import lines_of
from gemhooks.batches.rows import Outcome, row_of
from gemhooks.errors import Gone, NotYet, Refused
from gemhooks.gemini import batches
from gemhooks.gemini.batches import Batch
from gemhooks.messages import CONFIRM_TIMEOUT, Message, Publisher
from gemhooks.metrics import ResultMetrics
from gemhooks.results import Partial, ResultsStore
from workers.announcing import announce
from workers.downloading import Downloading, FileReader
from workers.ports import JobRecorder
from workers.progress import unnoted
from workers.records import EventRecorder
from workers.telling import ResultIndex, told

BATCHES, ROWS, SUMMARY = "batches", "rows.jsonl", "summary.json"
GOOD = ("succeeded", "partly_failed")
WITH_ROWS = (*GOOD, "all_failed")
STATES = {"partly_failed": "succeeded", "all_failed": "failed", "no_output": "failed"}
LARGEST_ROW = 1 << 20  # bytes; a larger one is named, not carried, by its message
log = structlog.get_logger()


class OperationReader(Protocol):
    """Gemini's long-running operations."""

    def get(self, name: str, /) -> dict[str, Any]:
        """The operation; NotYet, Gone, Retry or Refused where that cannot be."""
        ...


@dataclass(frozen=True)
class BatchFetcher:
    """Stores a batch's rows as Gemini sent them, and a summary beside them."""

    operations: OperationReader
    files: FileReader
    results: ResultsStore
    index: ResultIndex
    publisher: Publisher
    jobs: JobRecorder
    metrics: ResultMetrics
    publishes_rows: bool = False
    publish_timeout: float = CONFIRM_TIMEOUT
    further: Callable[[], None] = unnoted

    def fetch(self, event: events.BatchEvent) -> None:
        try:
            operation = self.operations.get(f"batches/{heads.bare_id(event.data.id)}")
        except (Gone, NotYet) as error:
            if isinstance(event, events.BatchSucceeded):
                raise
            EventRecorder(self.jobs).record_unreadable(event, error)
            return
        batch = batches.read(operation)
        if not batch.has_ended:  # the event was ahead of what can be read
            raise NotYet(f"the batch is still {batch.state or heads.UNKNOWN}")
        summary = self._known(batch) or self._fetched(event, batch)
        self._tell(event, summary)
        self._record(event, summary)

    def _known(self, batch: Batch) -> Summary | None:
        """What an earlier attempt has stored; nothing is fetched twice."""
        stored = self.results.read(BATCHES, batch.id, SUMMARY)
        if stored is None or self.results.find(BATCHES, batch.id, ROWS) is None:
            return None
        return Summary.model_validate_json(stored)

    def _fetched(self, event: events.BatchEvent, batch: Batch) -> Summary:
        began, tally = time.monotonic(), Counting()
        try:
            size = self._rows(event, batch, tally)
            summary = _summary(batch, tally.tally)
        finally:
            tally.close()
        written = summary.model_dump_json(indent=2).encode()
        url = self.results.write(BATCHES, batch.id, SUMMARY, written)
        self.index.record("batch", batch.id, url, len(written))
        self._count(summary, size, time.monotonic() - began)
        return summary

    def _rows(self, event: events.BatchEvent, batch: Batch, sink: "Counting") -> int:
        """Store what there is of rows; how many bytes were fetched."""
        if self.results.find(BATCHES, batch.id, ROWS):  # a crash came between them and the summary
            for chunk in self.results.chunks(BATCHES, batch.id, ROWS):
                sink.feed(chunk)
            return 0
        if batch.inlined is not None:
            return self._inlined(batch, batch.inlined, sink)
        source = batch.output_file or _of_event(event)
        if source:
            return self._downloaded(batch, source, sink)
        if batch.state not in (batches.SUCCEEDED, batches.PARTLY):
            return 0
        try:
            return self._downloaded(batch, f"files/batch-{batch.id}", sink)
        except (NotYet, Gone, Refused):  # nobody has said that there is such a file
            return 0

    def _downloaded(self, batch: Batch, source: str, sink: "Counting") -> int:
        with self.results.partial(BATCHES, batch.id, ROWS) as partial:
            download = Downloading(self.files, source, partial, sink, further=self.further)
            download.run()
            self._put(partial, batch)
        return download.fetched

    def _inlined(self, batch: Batch, rows: tuple[dict[str, Any], ...], sink: "Counting") -> int:
        with self.results.partial(BATCHES, batch.id, ROWS) as partial:
            partial.truncate()
            for row in rows:
                partial.write(jsontext.dumps(row) + b"\n")
                sink.tally.count(row_of(row))
            sink.tally.size = partial.size
            self._put(partial, batch)
            return sink.tally.size

    def _put(self, partial: Partial, batch: Batch) -> None:
        size = partial.size
        url = self.results.put(partial, BATCHES, batch.id, ROWS)
        self.index.record("batch", batch.id, url, size)

    def _tell(self, event: events.BatchEvent, summary: Summary) -> None:
        rows = self.results.find(BATCHES, summary.id, ROWS)
        url = rows.url if rows else ""
        if rows and self.publishes_rows:
            self._announce(self._row_messages(event, summary.id, url))
        known = self.results.find(BATCHES, summary.id, SUMMARY)
        data = summary.model_dump(include={"model", "requested", "ok", "failed", "missing"}) | {
            "id": event.data.id,
            "status": summary.outcome,
            "result_url": url,
            "summary_url": known.url if known else "",
            "user_metadata": event.data.user_metadata,
        }
        self._announce([told(event, "batch.fetched", data)])

    def _announce(self, messages: Iterable[Message]) -> None:
        announce(self.publisher, messages, timeout=self.publish_timeout)

    def _row_messages(self, event: events.BatchEvent, batch_id: str, url: str) -> Iterator[Message]:
        chunks = self.results.chunks(BATCHES, batch_id, ROWS)
        for number, line in enumerate(lines_of(chunks), start=1):
            row = read_row(line)
            carried = row.outcome is not Outcome.MALFORMED and _can_travel(line)
            data = {
                "id": event.data.id,
                "number": number,
                "key": row.key,
                "outcome": row.outcome.value,
                "row": orjson.Fragment(line) if carried else None,
                "result_url": url,
                "user_metadata": event.data.user_metadata,
            }
            yield told(event, "batch.row", data, key=str(number))

    def _record(self, event: events.BatchEvent, summary: Summary) -> None:
        self.jobs.record(
            "batch",
            event.data.id,
            STATES.get(summary.outcome, summary.outcome),
            event_type=event.type,
            error_code=summary.error_code,
            error_message=summary.error_message[:300],
            user_metadata=event.data.user_metadata or None,
        )
        level = log.info if summary.outcome in GOOD else log.warning
        counts = summary.model_dump(
            include={"rows", "ok", "failed", "empty", "malformed", "missing"}
        )
        level("batch_fetched", id=summary.id, outcome=summary.outcome, size=summary.size, **counts)

    def _count(self, summary: Summary, size: int, seconds: float) -> None:
        self.metrics.fetched("batch", size, seconds)
        for outcome in Outcome:
            self.metrics.rows(outcome.value, getattr(summary, outcome.value))
        for each in summary.tokens:
            self.metrics.tokens(summary.model, each.kind, each.modality, each.tokens)


def _can_travel(line: bytes) -> bool:
    """Neither too large for a message, nor deeper than those who hear it can read."""
    if len(line) > LARGEST_ROW:
        return False
    is_flat = line.count(b"{") + line.count(b"[") < events.DEEPEST // 2
    try:
        return is_flat or not events.is_too_deep({"data": {"row": jsontext.loads(line)}})
    except jsontext.Malformed:  # deeper than we can read ourselves
        return False


class Counting:
    """Counts what a download brings; a file that begins anew is counted anew."""

    def __init__(self) -> None:
        self.tally = Tally()

    def restart(self) -> None:
        self.tally.close()
        self.tally = Tally()

    def feed(self, chunk: bytes, /) -> None:
        self.tally.feed(chunk)

    def close(self) -> None:
        self.tally.close()


def _of_event(event: events.BatchEvent) -> str:
    """What the event names; gs:// only ever stood in an example of a document."""
    uri = event.data.output_file_uri or ""
    return "" if uri.startswith("gs://") else uri


def _summary(batch: Batch, tally: Tally) -> Summary:
    tally.end()
    outcome = _outcome(batch, tally)
    message = batch.error_message
    if outcome in STATES and not batch.error_code:
        bad = tally.rows - tally.ok
        message = f"{bad} of {tally.rows} rows did not succeed" if tally.rows else "it left no rows"
    return Summary(
        id=batch.id,
        outcome=outcome,
        state=batch.state,
        model=batch.model,
        display_name=batch.display_name,
        error_code=batch.error_code or (outcome if outcome in STATES else ""),
        error_message=message,
        created=batch.created,
        ended=batch.ended,
        **tally.counts(batch.requested),
    )


def _outcome(batch: Batch, tally: Tally) -> str:
    """A job that succeeded is what its rows are; a state nobody knows is never a success."""
    if batch.state in (batches.SUCCEEDED, batches.PARTLY):
        return tally.outcome(batch.requested)
    return batch.state if batch.state in batches.ENDED else heads.UNKNOWN
