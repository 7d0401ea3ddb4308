"""Batches from the first call to the last row, driven by the official client."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from google import genai
from google.genai import types
from google.genai.errors import ClientError
from pydantic import ValidationError

from gemhooks import events
from gemhooks.simulator import BatchPlan, Simulator, Variants
from tests.gemhooks.simulator.conftest import Listener, Received
from tests.services.waiting import eventually

MODEL = "gemini-3.8-flash"
PLANS = (
    BatchPlan(when="stays", delay=600),
    BatchPlan(when="stuck", outcome="stuck"),
    BatchPlan(when="fails", outcome="failed", code=3, message="No."),
    BatchPlan(when="expires", outcome="expired"),
    BatchPlan(when="odd", outcome="partially_succeeded"),
    BatchPlan(when="partly", fail_every=2),
    BatchPlan(when="detailed", fail_every=1, detailed_errors=True),
    BatchPlan(when="garbled", malformed_every=3, bare_every=4),
    BatchPlan(when="huge", rows=100_000, row_bytes=20_000, fail_every=1000),
    BatchPlan(when="brief", results_expire=0),
    BatchPlan(when="silent", announce=False),
    BatchPlan(when="more", extra=("no json", {"key": 5}, None)),
    BatchPlan(when="empty", results=False),
    BatchPlan(when="half", outcome="partially_succeeded", announce="batch.succeeded"),
)


@pytest.fixture
def gemini() -> Iterator[Simulator]:
    with Simulator(delay=0.01, retry_base=0.01, batches=PLANS) as simulator:
        yield simulator


@pytest.fixture
def http() -> Iterator[urllib3.PoolManager]:
    with urllib3.PoolManager(headers={"x-goog-api-key": "any"}) as http:
        yield http


def requests(*texts: str) -> Any:
    return [
        {"contents": [{"parts": [{"text": text}]}], "metadata": {"key": text}} for text in texts
    ]


def inline(
    client: genai.Client, listener: Listener, name: str = "plain", *texts: str
) -> types.BatchJob:
    """Start a batch of inline rows and wait for the event of its end."""
    started = start(client, listener, name, src=requests(*(texts or ("one", "two"))))
    listener.wait(1)
    return client.batches.get(name=started.name or "")


def start(client: genai.Client, listener: Listener, name: str, src: Any) -> types.BatchJob:
    config: Any = {"display_name": name, "webhook_config": {"uris": [listener.url]}}
    return client.batches.create(model=MODEL, src=src, config=config)


def from_file(
    client: genai.Client, listener: Listener, folder: Path, name: str, count: int = 3
) -> types.BatchJob:
    """Upload rows, start a batch of them and wait for the event of its end."""
    path = folder / "rows.jsonl"
    rows = [
        {"key": f"request_{n}", "request": {"contents": [{"parts": [{"text": f"row {n}"}]}]}}
        for n in range(count)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    uploaded = client.files.upload(file=path, config={"mime_type": "application/jsonl"})
    started = start(client, listener, name, src=uploaded.name)
    listener.wait(1)
    return client.batches.get(name=started.name or "")


def event_in(received: Received) -> Any:
    return json.loads(received.body)


def lines(client: genai.Client, batch: types.BatchJob) -> list[bytes]:
    assert batch.dest
    return client.files.download(file=batch.dest.file_name or "").splitlines()


def test_a_new_batch_is_pending(client: genai.Client, listener: Listener) -> None:
    started = start(client, listener, "stays", requests("one"))
    assert started.state == types.JobState.JOB_STATE_PENDING
    assert started.name
    assert len(started.name) == len("batches/") + 36
    assert (started.display_name, started.model) == ("stays", f"models/{MODEL}")


def test_inline_rows_come_back_with_their_keys(
    client: genai.Client, gemini: Simulator, listener: Listener
) -> None:
    batch = inline(client, listener, "plain", "one", "two")
    (received,) = listener.wait(1)
    event = event_in(received)
    assert (event["type"], event["data"]) == ("batch.succeeded", {"id": batch.name})
    assert batch.state == types.JobState.JOB_STATE_SUCCEEDED
    assert batch.dest
    answered = {
        (row.metadata or {})["key"]: row.response.text if row.response else None
        for row in batch.dest.inlined_responses or []
    }
    assert answered == {"one": "You said: one", "two": "You said: two"}


def test_rows_of_a_file_come_back_in_a_file(
    client: genai.Client, listener: Listener, tmp_path: Path
) -> None:
    batch = from_file(client, listener, tmp_path, "plain")
    event = event_in(listener.wait(1)[0])
    assert batch.dest
    assert batch.dest.file_name == (batch.name or "").replace("batches/", "files/batch-")
    assert event["data"]["output_file_uri"] == batch.dest.file_name
    rows = {row["key"]: row["response"] for row in map(json.loads, lines(client, batch))}
    assert set(rows) == {"request_0", "request_1", "request_2"}
    parsed = types.GenerateContentResponse.model_validate(rows["request_1"])
    assert parsed.text == "You said: row 1"


def test_rows_may_fail_while_the_batch_succeeds(client: genai.Client, listener: Listener) -> None:
    batch = inline(client, listener, "partly", "one", "two", "three")
    assert batch.state == types.JobState.JOB_STATE_SUCCEEDED
    assert batch.dest
    rows = batch.dest.inlined_responses or []
    failed = {(row.metadata or {})["key"]: row.error.code for row in rows if row.error}
    assert failed == {"two": 3}


def test_errors_with_details_are_what_the_official_client_breaks_on(
    client: genai.Client, listener: Listener
) -> None:
    with pytest.raises(ValidationError):
        inline(client, listener, "detailed")


def test_a_result_file_may_have_lines_that_are_no_rows(
    client: genai.Client, listener: Listener, tmp_path: Path
) -> None:
    batch = from_file(client, listener, tmp_path, "garbled", count=12)
    broken, bare = 0, 0
    for line in lines(client, batch):
        try:
            bare += "candidates" in json.loads(line)
        except json.JSONDecodeError:
            broken += 1
    assert (broken, bare) == (4, 2)  # the twelfth is both, and broken wins


@pytest.mark.parametrize(
    ("name", "state", "data"),
    [
        ("fails", "JOB_STATE_FAILED", {"error_code": 3, "error_message": "No."}),
        ("expires", "JOB_STATE_EXPIRED", {}),
    ],
)
def test_a_batch_without_success_says_so(
    client: genai.Client, listener: Listener, name: str, state: str, data: Any
) -> None:
    batch = inline(client, listener, name)
    event = event_in(listener.wait(1)[0])
    assert batch.state == state
    assert batch.dest is None
    assert event["type"] == state.replace("JOB_STATE_", "batch.").lower()
    assert event["data"] == {"id": batch.name} | data


def test_a_cancelled_batch_is_announced(client: genai.Client, listener: Listener) -> None:
    started = start(client, listener, "stays", requests("one"))
    client.batches.cancel(name=started.name or "")
    assert event_in(listener.wait(1)[0])["type"] == "batch.cancelled"
    batch = client.batches.get(name=started.name or "")
    assert batch.state == types.JobState.JOB_STATE_CANCELLED


def test_a_batch_that_ended_cannot_be_cancelled(client: genai.Client, listener: Listener) -> None:
    batch = inline(client, listener)
    with pytest.raises(ClientError) as raised:
        client.batches.cancel(name=batch.name or "")
    assert (raised.value.code, raised.value.status) == (400, "FAILED_PRECONDITION")


def test_a_deleted_batch_is_not_found(client: genai.Client, listener: Listener) -> None:
    batch = inline(client, listener)
    client.batches.delete(name=batch.name or "")
    with pytest.raises(ClientError) as raised:
        client.batches.get(name=batch.name or "")
    assert (raised.value.code, raised.value.status) == (404, "NOT_FOUND")


def test_batches_are_listed_in_pages_to_the_end(client: genai.Client, listener: Listener) -> None:
    for name in ("stays 1", "stays 2", "stays 3"):
        start(client, listener, name, requests("one"))
    listed = [batch.display_name for batch in client.batches.list(config={"page_size": 2})]
    assert listed == ["stays 3", "stays 2", "stays 1"]


def test_an_unknown_state_sends_no_event(
    client: genai.Client, gemini: Simulator, listener: Listener
) -> None:
    odd = start(client, listener, "odd", requests("one"))
    inline(client, listener)
    eventually(lambda: not any(each.is_open for each in gemini.batches), why="both ended")
    assert gemini.wait_for(lambda attempts: len(attempts) > 0, timeout=60)
    assert {attempt.type for attempt in gemini.attempts} == {"batch.succeeded"}
    with pytest.warns(match="PARTIALLY_SUCCEEDED is not a valid JobState"):
        assert not client.batches.get(name=odd.name or "").done


def test_a_result_file_may_have_any_line_besides(
    client: genai.Client, listener: Listener, tmp_path: Path
) -> None:
    found = lines(client, from_file(client, listener, tmp_path, "more"))
    assert found[3:] == [b"no json", b'{"key": 5}', b"null"]


def test_a_success_may_have_no_results(client: genai.Client, listener: Listener) -> None:
    batch = inline(client, listener, "empty")
    assert (batch.state, batch.dest) == ("JOB_STATE_SUCCEEDED", None)


def test_an_event_may_say_more_than_the_batch(client: genai.Client, listener: Listener) -> None:
    with pytest.warns(match="PARTIALLY_SUCCEEDED"):
        inline(client, listener, "half")
    assert event_in(listener.wait(1)[0])["type"] == "batch.succeeded"


def test_a_stuck_batch_stays_pending(
    client: genai.Client, gemini: Simulator, listener: Listener
) -> None:
    stuck = start(client, listener, "stuck", requests("one"))
    silent = start(client, listener, "silent", requests("one"))
    inline(client, listener)
    eventually(lambda: sum(each.is_open for each in gemini.batches) == 1, why="the others ended")
    assert gemini.wait_for(lambda attempts: len(attempts) > 0, timeout=60)
    assert client.batches.get(name=stuck.name or "").state == types.JobState.JOB_STATE_PENDING
    assert client.batches.get(name=silent.name or "").state == types.JobState.JOB_STATE_SUCCEEDED
    assert len(gemini.attempts) == 1


def test_embeddings_come_back_as_vectors(client: genai.Client, listener: Listener) -> None:
    client.webhooks.create(uri=listener.url, subscribed_events=["batch.succeeded"])
    source: Any = {"inlined_requests": {"contents": [{"parts": [{"text": "one"}]}]}}
    with pytest.warns(match="experimental"):
        started = client.batches.create_embeddings(model="gemini-embedding-001", src=source)
    listener.wait(1)
    batch = client.batches.get(name=started.name or "")
    assert batch.dest
    (row,) = batch.dest.inlined_embed_content_responses or []
    assert row.response
    assert row.response.embedding
    assert len(row.response.embedding.values or []) == 8


def test_two_gigabytes_of_rows_are_read_from_anywhere(
    client: genai.Client, listener: Listener, http: urllib3.PoolManager, gemini: Simulator
) -> None:
    batch = inline(client, listener, "huge")
    assert batch.dest
    url = f"{gemini.url}/download/v1beta/{batch.dest.file_name}:download?alt=media"
    part = http.request("GET", url, headers={"x-goog-api-key": "k", "Range": "bytes=-40000"})
    assert part.headers["content-range"] == "bytes 1999960000-1999999999/2000000000"
    first, second = map(json.loads, part.data.splitlines())
    assert first["key"] == "request_99998"
    assert first["response"]["candidates"][0]["content"]["parts"][0]["text"].startswith("All work")
    assert second == {
        "key": "request_99999",
        "error": {"code": 3, "message": "This row is invalid, as its plan says."},
    }
    stats = http.request("GET", f"{gemini.url}/v1/{batch.name}").json()["metadata"]["batchStats"]
    assert stats == {
        "requestCount": "100000",
        "successfulRequestCount": "99900",
        "failedRequestCount": "100",
    }


def test_results_expire(client: genai.Client, listener: Listener, tmp_path: Path) -> None:
    batch = from_file(client, listener, tmp_path, "brief")
    with pytest.raises(ClientError) as raised:
        lines(client, batch)
    assert raised.value.code == 404


def test_a_file_that_is_no_list_of_requests_fails_the_batch(
    client: genai.Client, listener: Listener, tmp_path: Path
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"key": "a", "request": {}}\nnot json\n')
    uploaded = client.files.upload(file=path, config={"mime_type": "application/jsonl"})
    start(client, listener, "plain", src=uploaded.name)
    event = event_in(listener.wait(1)[0])
    assert (event["type"], event["data"]["error_code"]) == ("batch.failed", 3)


@pytest.mark.parametrize("body", [{}, {"batch": {}}, {"batch": {"inputConfig": {}}}])
def test_a_batch_without_rows_is_refused(
    gemini: Simulator, http: urllib3.PoolManager, body: Any
) -> None:
    url = f"{gemini.url}/v1/models/m:batchGenerateContent"
    answer = http.request("POST", url, json=body)
    assert (answer.status, answer.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    "shape",
    [
        (Variants(), "files/batch-{id}"),
        (
            Variants(batch_output_uri="https"),
            "https://generativelanguage.googleapis.com/v1beta/files/batch-{id}",
        ),
        (
            Variants(batch_output_uri="download", base_uri="https://example.com"),
            "https://example.com/v1beta/files/batch-{id}:download?alt=media",
        ),
        (Variants(batch_output_uri="gs"), "gs://simulated-bucket/batch-{id}.jsonl"),
        (Variants(batch_output_uri="absent"), None),
    ],
)
def test_the_output_file_has_every_form_of_uri(
    client: genai.Client,
    gemini: Simulator,
    listener: Listener,
    tmp_path: Path,
    shape: tuple[Variants, str | None],
) -> None:
    gemini.variants, expected = shape
    batch = from_file(client, listener, tmp_path, "plain")
    uri = event_in(listener.wait(1)[0])["data"].get("output_file_uri")
    bare = (batch.name or "").removeprefix("batches/")
    assert uri == (expected and expected.format(id=bare))


@pytest.mark.parametrize(("shape", "form"), [("bare", "{}"), ("operation", "operations/{}")])
def test_the_id_of_a_batch_has_every_form(
    client: genai.Client, gemini: Simulator, listener: Listener, shape: Any, form: str
) -> None:
    gemini.variants = Variants(batch_id=shape, batch_succeeded="batch.completed")
    batch = inline(client, listener)
    event = event_in(listener.wait(1)[0])
    assert event["type"] == "batch.completed"
    assert event["data"]["id"] == form.format((batch.name or "").removeprefix("batches/"))


@pytest.mark.parametrize("prefix", ["BATCH_STATE", "JOB_STATE"])
@pytest.mark.parametrize("place", ["metadata", "top", "both"])
def test_state_and_results_stand_at_every_documented_level(
    client: genai.Client, gemini: Simulator, listener: Listener, prefix: Any, place: Any
) -> None:
    gemini.variants = Variants(batch_state=prefix, batch_state_at=place, batch_results_at="top")
    name = inline(client, listener).name
    seen = urllib3.request("GET", f"{gemini.url}/v1/{name}?key=any").json()
    levels = {"top": seen, "metadata": seen["metadata"]}
    found = {at: level["state"] for at, level in levels.items() if "state" in level}
    places = ("metadata", "top") if place == "both" else (place,)
    assert found == dict.fromkeys(places, f"{prefix}_SUCCEEDED")
    assert "output" not in seen["metadata"]
    assert seen["dest"]["inlinedResponses"]


@pytest.mark.parametrize(
    "place",
    ["data.id", "data.name", "data.interaction_id", "data.interaction.id", "interaction.id"],
)
@pytest.mark.parametrize("metadata_at", ["data", "top", "interaction"])
def test_our_own_events_read_every_envelope(
    client: genai.Client, gemini: Simulator, listener: Listener, place: Any, metadata_at: Any
) -> None:
    gemini.variants = Variants(type_key="event_type", id_at=place, user_metadata_at=metadata_at)
    config: Any = {"uris": [listener.url], "user_metadata": {"job": "7"}}
    client.batches.create(model=MODEL, src=requests("one"), config={"webhook_config": config})
    event = events.parse(listener.wait(1)[0].body)
    assert event.type == "batch.succeeded"
    assert event.data.id.startswith("batches/")


def test_a_batch_may_be_asked_for_in_snake_case_as_the_guide_does(
    gemini: Simulator, http: urllib3.PoolManager, listener: Listener
) -> None:
    row = {"request": {"contents": [{"parts": [{"text": "one"}]}]}, "metadata": {"key": "k"}}
    batch = {
        "display_name": "any",
        "input_config": {"requests": {"requests": [row]}},
        "webhook_config": {"uris": [listener.url]},
    }
    url = f"{gemini.url}/v1beta/models/{MODEL}:batchGenerateContent"
    answer = http.request("POST", url, json={"batch": batch})

    assert answer.status == 200, answer.data
    assert answer.json()["metadata"]["displayName"] == "any"
    assert event_in(listener.wait(1)[0])["type"] == "batch.succeeded"
