import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry

from gemhooks import events
from gemhooks.errors import Gone, NotYet, PublishFailed, Refused, Retry
from gemhooks.gemini import Gemini
from gemhooks.metrics import ResultMetrics
from gemhooks.results import ResultsStore
from gemhooks.simulator import BatchPlan, Simulator, Variants
from tests.services.waiting import wait_until
from tests.workers.fetching import (
    MemoryFiles,
    MemoryIndex,
    MemoryJobs,
    MemoryOperations,
    MemoryPublisher,
    ask,
    event,
)
from workers.batches import BatchFetcher

Json = dict[str, Any]
ID = "b123"


@dataclass
class Bench:
    """A fetcher and all that it touches."""

    operations: Any
    files: Any
    results: ResultsStore
    publishes_rows: bool = False
    publisher: MemoryPublisher = field(default_factory=MemoryPublisher)
    jobs: MemoryJobs = field(default_factory=MemoryJobs)
    index: MemoryIndex = field(default_factory=MemoryIndex)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        self.fetcher = BatchFetcher(
            self.operations,
            self.files,
            self.results,
            self.index,
            self.publisher,
            self.jobs,
            ResultMetrics(self.registry),
            publishes_rows=self.publishes_rows,
            publish_timeout=0.05,
        )

    def summary(self, batch_id: str = ID) -> Json:
        stored = self.results.read("batches", batch_id, "summary.json")
        assert stored is not None
        return dict(orjson.loads(stored))

    def told(self) -> Json:
        return self.publisher.bodies("batch.fetched")[-1]


def bench(folder: Path, operation: Json | Exception, lines: list[Any] | None = None) -> Bench:
    """A batch with that operation, and *lines* in the file that it names."""
    content = b"".join(
        (line if isinstance(line, bytes) else orjson.dumps(line)) + b"\n" for line in lines or []
    )
    files = MemoryFiles({f"files/batch-{ID}": content} if lines is not None else {})
    operations = MemoryOperations({f"batches/{ID}": operation})
    return Bench(operations, files, ResultsStore(str(folder)))


def succeeded(*, requested: int | None = None, inlined: Any = None, **more: Any) -> Json:
    stats = {"batchStats": {"requestCount": str(requested)}} if requested is not None else {}
    output = (
        {"responsesFile": f"files/batch-{ID}"}
        if inlined is None
        else {"inlinedResponses": {"inlinedResponses": inlined}}
    )
    metadata = {"state": "BATCH_STATE_SUCCEEDED", "output": output, **stats, **more}
    return {"name": f"batches/{ID}", "done": True, "metadata": metadata}


def answer(key: Any = None, tokens: int = 0) -> Json:
    response: Json = {"candidates": [{"content": {"parts": [{"text": "x"}]}}]}
    if tokens:
        response["usageMetadata"] = {"promptTokenCount": tokens}
    return {"response": response} | ({} if key is None else {"key": key})


ERROR = {"error": {"code": 3, "message": "INVALID_ARGUMENT"}}
BLOCKED: Json = {"key": "b", "response": {"candidates": [{"finishReason": "SAFETY", "index": 0}]}}


def test_a_file_is_stored_as_it_was_sent_and_summed_up(tmp_path: Path) -> None:
    lines = [answer("r2", tokens=5), {"key": "r1", **ERROR}, answer("r3", tokens=2)]
    it = bench(tmp_path, succeeded(requested=3, model="models/m"), lines)

    it.fetcher.fetch(event("batch.succeeded", id=f"batches/{ID}", user_metadata={"job": 1}))

    stored = it.results.read("batches", ID, "rows.jsonl")
    assert stored == it.files.content[f"files/batch-{ID}"]
    assert it.summary() | {"errors": None} == it.summary() | {
        "outcome": "partly_failed",
        "rows": 3,
        "ok": 2,
        "failed": 1,
        "missing": 0,
        "errors": None,
    }
    assert it.summary()["errors"] == {"3": 1}
    assert it.summary()["tokens"] == [{"kind": "input", "modality": "unspecified", "tokens": 7}]
    told = it.told()
    assert told["status"] == "partly_failed"
    assert told["result_url"] == f"file://{tmp_path}/batches/{ID}/rows.jsonl"
    assert told["user_metadata"] == {"job": 1}
    assert it.jobs.last["state"] == "succeeded"
    assert it.jobs.last["error_message"] == "1 of 3 rows did not succeed"
    labels = {"model": "m", "kind": "input", "modality": "unspecified"}
    assert it.registry.get_sample_value("gemhooks_tokens_total", labels) == 7
    assert it.registry.get_sample_value("gemhooks_batch_rows_total", {"outcome": "ok"}) == 2


def test_rows_are_matched_by_key_and_all_that_does_not_match_is_reported(tmp_path: Path) -> None:
    keys = ["r3", "r1", "r2", "r1", "stranger", None, 7]
    it = bench(tmp_path, succeeded(requested=3), [answer(key) for key in keys])

    it.fetcher.fetch(event("batch.succeeded", id=ID))

    summary = it.summary()
    assert (summary["duplicates"], summary["keyless"], summary["surplus"]) == (1, 1, 3)
    assert summary["missing"] == 0


def test_requests_without_a_row_are_missing_and_no_success(tmp_path: Path) -> None:
    it = bench(tmp_path, succeeded(requested=5), [answer("r1"), answer("r2")])

    it.fetcher.fetch(event("batch.succeeded", id=ID))

    assert (it.summary()["missing"], it.summary()["outcome"]) == (3, "partly_failed")


@pytest.mark.parametrize(
    "line",
    [b'{"key":"cut', b"nonsense", b"[1]", b"null", b"\xff\xfe", b'"text"', b"[" * 5000],
)
def test_a_malformed_line_is_a_row_error_and_no_lost_file(tmp_path: Path, line: bytes) -> None:
    it = bench(tmp_path, succeeded(), [answer("r1"), line, answer("r2")])

    it.fetcher.fetch(event("batch.succeeded", id=ID))

    assert (it.summary()["ok"], it.summary()["malformed"]) == (2, 1)


def test_a_last_line_without_an_end_counts(tmp_path: Path) -> None:
    it = bench(tmp_path, succeeded(), [])
    it.files.content[f"files/batch-{ID}"] = orjson.dumps(answer("r1"))

    it.fetcher.fetch(event("batch.succeeded", id=ID))

    assert it.summary()["ok"] == 1


@pytest.mark.parametrize(
    ("rows", "counts", "outcome"),
    [
        ([answer("a"), ERROR, {}], (1, 1, 1), "partly_failed"),
        ([ERROR, {"metadata": {"key": "b"}, **ERROR}], (0, 2, 0), "all_failed"),
        ([], (0, 0, 0), "no_output"),
        ([{"metadata": {"key": "a"}, **answer()}], (1, 0, 0), "succeeded"),
        ([{"response": {"promptFeedback": {"blockReason": "SAFETY"}}}], (0, 0, 1), "all_failed"),
        ([answer("a"), BLOCKED], (1, 0, 1), "partly_failed"),
        ([BLOCKED, BLOCKED], (0, 0, 2), "all_failed"),
        ([None, "x", []], (0, 0, 3), "all_failed"),
        (
            [{"response": {"embedding": {"values": [0.1]}, "tokenCount": "4"}}],
            (1, 0, 0),
            "succeeded",
        ),
        (
            [{"error": {"code": 3, "details": [{"@type": "x"}]}, "metadata": {"n": 1}}],
            (0, 1, 0),
            "all_failed",
        ),
    ],
)
def test_a_success_of_the_job_is_what_its_rows_are(
    tmp_path: Path, rows: list[Any], counts: tuple[int, int, int], outcome: str
) -> None:
    it = bench(tmp_path, succeeded(inlined=rows))

    it.fetcher.fetch(event("batch.succeeded", id=ID))

    summary = it.summary()
    assert (summary["ok"], summary["failed"], summary["empty"]) == counts
    assert summary["outcome"] == it.told()["status"] == outcome
    good = outcome in ("succeeded", "partly_failed")
    assert it.jobs.last["state"] == ("succeeded" if good else "failed")


def test_the_summary_says_why_rows_are_empty(tmp_path: Path) -> None:
    it = bench(tmp_path, succeeded(), [answer("a"), BLOCKED, BLOCKED, {}])

    it.fetcher.fetch(event("batch.succeeded", id=ID))

    assert it.summary()["reasons"] == {"SAFETY": 2, "unspecified": 1}


def test_a_success_without_any_output_is_a_failure(tmp_path: Path) -> None:
    operation = {"name": f"batches/{ID}", "metadata": {"state": "BATCH_STATE_SUCCEEDED"}}
    it = bench(tmp_path, operation)

    it.fetcher.fetch(event("batch.succeeded", id=ID))

    assert it.told()["status"] == "no_output"
    assert (it.jobs.last["state"], it.jobs.last["error_code"]) == ("failed", "no_output")


def test_the_name_of_a_result_file_is_derived_where_nobody_tells_it(tmp_path: Path) -> None:
    operation = {"name": f"batches/{ID}", "metadata": {"state": "JOB_STATE_SUCCEEDED"}}
    it = bench(tmp_path, operation, [answer("r1")])

    it.fetcher.fetch(event("batch.succeeded", id=ID, output_file_uri="gs://b/x.jsonl"))

    assert it.summary()["ok"] == 1


@pytest.mark.parametrize("state", ["BATCH_STATE_NEW", "", None, 7])
def test_a_state_nobody_knows_is_no_success(tmp_path: Path, state: Any) -> None:
    it = bench(tmp_path, succeeded() | {"metadata": {"state": state}})

    it.fetcher.fetch(event("batch.succeeded", id=ID))

    assert it.told()["status"] == "unknown"
    assert it.jobs.last["state"] == "unknown"


def test_a_partial_success_brings_its_rows(tmp_path: Path) -> None:
    operation = succeeded(requested=2)
    operation["metadata"]["state"] = "BATCH_STATE_PARTIALLY_SUCCEEDED"
    it = bench(tmp_path, operation, [answer("r1")])

    it.fetcher.fetch(event("batch.succeeded", id=ID))

    assert it.summary()["outcome"] == "partly_failed"


STATES = ("RUNNING", "PENDING", "QUEUED", "UPDATING", "CANCELLING", "PAUSED", "UNSPECIFIED", "NEW")


@pytest.mark.parametrize("what", ["succeeded", "failed", "cancelled", "brand_new"])
@pytest.mark.parametrize("state", [*(f"JOB_STATE_{each}" for each in STATES), "", None, 7])
def test_a_state_that_is_no_end_is_asked_for_again(tmp_path: Path, state: Any, what: str) -> None:
    it = bench(tmp_path, {"name": f"batches/{ID}", "metadata": {"state": state}, "done": False})

    with pytest.raises(NotYet, match="still"):
        it.fetcher.fetch(event(f"batch.{what}", id=ID))

    assert not it.publisher.published
    assert not it.jobs.last


def test_an_event_ahead_of_its_batch_brings_its_rows_later(tmp_path: Path) -> None:
    it = bench(tmp_path, {"name": f"batches/{ID}", "metadata": {"state": "JOB_STATE_UPDATING"}})
    with pytest.raises(NotYet):
        it.fetcher.fetch(event("batch.succeeded", id=ID))
    it.operations.found = {f"batches/{ID}": succeeded(inlined=[answer("a")])}

    it.fetcher.fetch(event("batch.succeeded", id=ID))

    assert (it.told()["status"], it.jobs.last["state"]) == ("succeeded", "succeeded")


@pytest.mark.parametrize("what", ["failed", "expired", "cancelled"])
def test_an_end_without_rows_is_told_with_its_error(tmp_path: Path, what: str) -> None:
    operation = {
        "name": f"batches/{ID}",
        "metadata": {"state": f"BATCH_STATE_{what.upper()}"},
        "error": {"code": 13, "message": "broke"},
    }
    it = bench(tmp_path, operation)

    it.fetcher.fetch(event(f"batch.{what}", id=ID))

    assert it.told()["status"] == what
    assert it.jobs.last["error_message"] == "broke"
    assert it.summary()["rows"] == 0


@pytest.mark.parametrize("error", [Gone("deleted"), NotYet("not_found")])
def test_of_a_failure_the_event_may_be_all_there_is(tmp_path: Path, error: Exception) -> None:
    it = bench(tmp_path, error)

    it.fetcher.fetch(event("batch.failed", id=ID, error_code=3, error_message="no"))

    assert (it.jobs.last["state"], it.jobs.last["error_code"]) == ("failed", "3")


@pytest.mark.parametrize("error", [Gone("deleted"), NotYet("not_found"), Retry("busy")])
def test_a_success_that_cannot_be_read_is_left_to_the_runner(
    tmp_path: Path, error: Exception
) -> None:
    it = bench(tmp_path, error)

    with pytest.raises(type(error)):
        it.fetcher.fetch(event("batch.succeeded", id=ID))


def test_a_result_file_that_is_named_and_missing_is_tried_again(tmp_path: Path) -> None:
    it = bench(tmp_path, succeeded())

    with pytest.raises(NotYet):
        it.fetcher.fetch(event("batch.succeeded", id=ID))

    assert not it.publisher.published


def test_a_second_delivery_fetches_and_rewrites_nothing_and_announces_the_same(
    tmp_path: Path,
) -> None:
    it = bench(tmp_path, succeeded(), [answer("r1")])
    it.fetcher.fetch(event("batch.succeeded", id=ID))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}

    it.fetcher.fetch(event("batch.succeeded", id=ID))

    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before
    assert len(it.files.opened) == 1
    first, second = it.publisher.published
    assert (first.id, first.body) == (second.id, second.body)


def test_a_crash_between_the_rows_and_their_summary_fetches_nothing_again(tmp_path: Path) -> None:
    it = bench(tmp_path, succeeded(), [answer("r1")])
    it.fetcher.fetch(event("batch.succeeded", id=ID))
    (tmp_path / "batches" / ID / "summary.json").unlink()

    it.fetcher.fetch(event("batch.succeeded", id=ID))

    assert it.summary()["ok"] == 1
    assert len(it.files.opened) == 1


def test_rows_become_messages_with_ids_of_their_own(tmp_path: Path) -> None:
    it = bench(tmp_path, succeeded(), [answer("r1"), b"odd", answer("r2")])
    it = Bench(it.operations, it.files, it.results, publishes_rows=True)

    it.fetcher.fetch(event("batch.succeeded", id=ID))

    rows = it.publisher.bodies("batch.row")
    assert [(row["number"], row["key"], row["outcome"]) for row in rows] == [
        (1, "r1", "ok"),
        (2, None, "malformed"),
        (3, "r2", "ok"),
    ]
    assert rows[0]["row"] == answer("r1")
    assert rows[1]["row"] is None
    assert [each.id for each in it.publisher.published] == [
        f"{ID}/batch.row/1",
        f"{ID}/batch.row/2",
        f"{ID}/batch.row/3",
        f"{ID}/batch.fetched",
    ]


@pytest.mark.parametrize("number", [b"", b"12345678901234567890"])
@pytest.mark.parametrize("depth", [50, 150, 400, 900, 1010])
def test_every_row_that_is_told_can_be_read(tmp_path: Path, depth: int, number: bytes) -> None:
    """A row may be deeper than an event may: it is named then, and not carried."""
    deep = b"[" * depth + number + b"]" * depth
    part = b'{"functionCall":{"name":"f","args":{"deep":%s}}}' % deep
    row = b'{"key":"r1","response":{"candidates":[{"content":{"parts":[%s]}}]}}' % part
    it = bench(tmp_path, succeeded(), [row])
    it = Bench(it.operations, it.files, it.results, publishes_rows=True)

    it.fetcher.fetch(event("batch.succeeded", id=ID))

    heard = [events.parse(each.body) for each in it.publisher.published]
    (told,) = [each.data for each in heard if isinstance(each, events.BatchRow)]
    assert (told.key, told.outcome, bool(told.row)) == ("r1", "ok", depth < 200)


def test_a_broker_that_confirms_nothing_gets_no_more_than_it_can_hold(tmp_path: Path) -> None:
    it = bench(tmp_path, succeeded(), [answer(f"r{number}") for number in range(500)])
    publisher = MemoryPublisher(confirms=False)
    it = Bench(it.operations, it.files, it.results, publishes_rows=True, publisher=publisher)

    with pytest.raises(PublishFailed):
        it.fetcher.fetch(event("batch.succeeded", id=ID))

    assert publisher.unconfirmed == 100


def test_another_filesystem_gets_the_rows_through_the_spool(tmp_path: Path) -> None:
    it = bench(tmp_path, succeeded(), [answer("r1")])
    store = ResultsStore("memory://batches-test", spool=tmp_path / "spool")
    it = Bench(it.operations, it.files, store)

    it.fetcher.fetch(event("batch.succeeded", id=ID))

    assert store.read("batches", ID, "rows.jsonl") == orjson.dumps(answer("r1")) + b"\n"
    assert not list((tmp_path / "spool").iterdir())


PLANS = (
    BatchPlan(when="rows", rows=300, row_bytes=2000, fail_every=10, malformed_every=25),
    BatchPlan(when="detailed", fail_every=1, detailed_errors=True),
    BatchPlan(when="garbled", malformed_every=3, bare_every=4),
    BatchPlan(when="expires", outcome="expired", rows=5),
    BatchPlan(when="brief", rows=10, results_expire=0),
)


@pytest.fixture
def gemini() -> Iterator[Simulator]:
    with Simulator(delay=0.0, batches=PLANS) as simulator:
        yield simulator


@pytest.fixture
def client(gemini: Simulator) -> Iterator[Gemini]:
    with closing(Gemini("any", base_url=gemini.url, timeout=60.0)) as client:
        yield client


def started(gemini: Simulator, client: Gemini, name: str, given: Json | None = None) -> str:
    """Start a batch and wait for its end; the bare id."""
    given = given or {"fileName": "files/none"}
    body = {"batch": {"displayName": name, "inputConfig": given}}
    batch = ask(f"{gemini.url}/v1/models/m:batchGenerateContent", body)
    wait_until(lambda: client.operations.get(batch["name"])["done"], "the batch to end")
    return str(batch["name"]).removeprefix("batches/")


VARIANTS = [
    Variants.model_validate(
        {"batch_state": prefix, "batch_state_at": state_at, "batch_results_at": results_at}
    )
    for prefix in ("BATCH_STATE", "JOB_STATE")
    for state_at, results_at in (
        ("metadata", "both"),
        ("top", "metadata"),
        ("both", "response"),
        ("top", "top"),
    )
]


@pytest.mark.parametrize("variants", VARIANTS)
def test_every_variant_of_the_documents_is_read(
    tmp_path: Path, gemini: Simulator, client: Gemini, variants: Variants
) -> None:
    gemini.variants = variants
    it = Bench(client.operations, client.files, ResultsStore(str(tmp_path)))
    batch_id = started(gemini, client, "rows")

    it.fetcher.fetch(event("batch.completed", id=batch_id))

    summary = it.summary(batch_id)
    assert summary["rows"] == 300
    assert summary["requested"] == 300
    assert summary["malformed"] == 12
    assert summary["failed"] + summary["ok"] == 288


@pytest.mark.parametrize("name", ["plain", "detailed", "garbled"])
def test_inlined_rows_are_read_whatever_the_official_client_thinks_of_them(
    tmp_path: Path, gemini: Simulator, client: Gemini, name: str
) -> None:
    requests = [
        {"request": {"contents": [{"parts": [{"text": key}]}]}, "metadata": {"key": key}}
        for key in ("a", "b", "c", "d")
    ]
    it = Bench(client.operations, client.files, ResultsStore(str(tmp_path)))
    batch_id = started(gemini, client, name, {"requests": {"requests": requests}})

    it.fetcher.fetch(event("batch.succeeded", id=f"batches/{batch_id}"))

    summary = it.summary(batch_id)
    assert summary["rows"] == 4
    assert summary["keyless"] == 0
    assert summary["outcome"] == ("all_failed" if name == "detailed" else "succeeded")


@pytest.mark.parametrize(
    "uri", ["files/batch-{}", "https://generativelanguage.googleapis.com/v1beta/files/batch-{}", ""]
)
def test_the_place_that_an_event_names_is_understood(
    tmp_path: Path, gemini: Simulator, client: Gemini, uri: str
) -> None:
    class WithoutOutput:
        def get(self, name: str, /) -> Json:
            found = client.operations.get(name)
            found.pop("response")
            found["metadata"].pop("output")
            return found

    it = Bench(WithoutOutput(), client.files, ResultsStore(str(tmp_path)))
    batch_id = started(gemini, client, "rows")
    named = {"output_file_uri": uri.format(batch_id)} if uri else {}

    it.fetcher.fetch(event("batch.succeeded", id=batch_id, **named))

    assert it.summary(batch_id)["rows"] == 300


def test_a_result_that_has_expired_ends_with_the_pointer_kept(
    tmp_path: Path, gemini: Simulator, client: Gemini
) -> None:
    it = Bench(client.operations, client.files, ResultsStore(str(tmp_path)))
    batch_id = started(gemini, client, "brief")

    with pytest.raises((NotYet, Gone, Refused)):
        it.fetcher.fetch(event("batch.succeeded", id=batch_id))


def test_an_expired_batch_of_the_simulator_is_told_as_expired(
    tmp_path: Path, gemini: Simulator, client: Gemini
) -> None:
    it = Bench(client.operations, client.files, ResultsStore(str(tmp_path)))
    batch_id = started(gemini, client, "expires")

    it.fetcher.fetch(event("batch.expired", id=batch_id))

    assert it.told()["status"] == "expired"
    assert json.loads(json.dumps(it.summary(batch_id)))["rows"] == 0
