import json
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry

from gemhooks import events, topology
from gemhooks.errors import Gone, NotYet, PublishFailed, Refused, Retry
from gemhooks.gemini import FetchedInteraction
from gemhooks.messages import Message
from gemhooks.metrics import ResultMetrics
from gemhooks.results import ResultsStore
from workers.interactions import InteractionFetcher


@dataclass
class ScriptedGemini:
    """Gives the interaction it was made with, or raises."""

    answer: dict[str, Any] | Exception

    def get(self, interaction_id: str, /) -> FetchedInteraction:
        if isinstance(self.answer, Exception):
            raise self.answer
        try:
            raw = orjson.dumps(self.answer)
        except TypeError:  # more than its 254 levels
            raw = json.dumps(self.answer).encode()
        return FetchedInteraction(interaction_id, raw, self.answer)


@dataclass
class MemoryPublisher:
    """Keeps what was published; the future ends as it is told, or never."""

    outcome: Exception | None = None
    answers: bool = True
    published: list[tuple[str, Message]] = field(default_factory=list)

    def publish(self, message: Message, *, exchange: str = topology.EVENTS) -> Future[None]:
        self.published.append((exchange, message))
        future: Future[None] = Future()
        if self.outcome is not None:
            future.set_exception(self.outcome)
        elif self.answers:
            future.set_result(None)
        return future


@dataclass
class MemoryJobs:
    """Keeps what was recorded."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def record(
        self,
        kind: str,
        id: str,  # noqa: A002 - the protocol's name
        state: str,
        *,
        event_type: str = "",
        error_code: str = "",
        error_message: str = "",
        user_metadata: dict[str, Any] | None = None,
    ) -> None:
        self.rows.append(
            {
                "kind": kind,
                "id": id,
                "state": state,
                "event_type": event_type,
                "error_code": error_code,
                "error_message": error_message,
                "user_metadata": user_metadata,
            }
        )


@dataclass
class Bench:
    """A fetcher and all that it touches."""

    fetcher: InteractionFetcher
    gemini: ScriptedGemini
    results: ResultsStore
    publisher: MemoryPublisher
    jobs: MemoryJobs
    registry: CollectorRegistry

    def fetched(self) -> events.InteractionFetched:
        event = events.parse(self.publisher.published[-1][1].body)
        assert isinstance(event, events.InteractionFetched)
        return event


def bench(
    folder: Path, answer: dict[str, Any] | Exception, publisher: MemoryPublisher | None = None
) -> Bench:
    publisher = publisher or MemoryPublisher()
    results, jobs = ResultsStore(str(folder)), MemoryJobs()
    registry = CollectorRegistry()
    gemini = ScriptedGemini(answer)
    fetcher = InteractionFetcher(
        gemini,
        results,
        publisher,
        jobs,
        ResultMetrics(registry),
        publish_timeout=0.05,
    )
    return Bench(fetcher, gemini, results, publisher, jobs, registry)


def completed(**more: Any) -> events.InteractionCompleted:
    body = {"type": "interaction.completed", "version": "1", "timestamp": "2026-11-30T07:00:00Z"}
    event = events.parse(orjson.dumps({**body, "data": {"id": "int_1", **more}}))
    assert isinstance(event, events.InteractionCompleted)
    return event


def interaction(**more: Any) -> dict[str, Any]:
    said = {"type": "model_output", "content": [{"type": "text", "text": "Hello"}]}
    return {"id": "int_1", "status": "completed", "steps": [said], **more}


def test_a_completed_interaction_is_stored_whole_announced_and_recorded(tmp_path: Path) -> None:
    answer = interaction(usage={"total_tokens": 7}, extra={"kept": True})
    it = bench(tmp_path, answer)

    it.fetcher.fetch(completed(user_metadata={"job": "7"}))

    assert it.results.read("interactions", "int_1", "json") == orjson.dumps(answer)
    exchange, message = it.publisher.published[0]
    assert exchange == topology.RESULTS
    assert message.routing_key == "interaction.fetched"
    fetched = it.fetched()
    assert (fetched.version, fetched.timestamp) == ("1", "2026-11-30T07:00:00Z")
    assert fetched.data.id == "int_1"
    assert fetched.data.status == "completed"
    assert fetched.data.result_url == f"file://{tmp_path}/interactions/int_1.json"
    assert fetched.data.text == "Hello"
    assert fetched.data.total_tokens == 7
    assert fetched.data.user_metadata == {"job": "7"}
    assert it.jobs.rows == [
        {
            "kind": "interaction",
            "id": "int_1",
            "state": "completed",
            "event_type": "interaction.completed",
            "error_code": "",
            "error_message": "",
            "user_metadata": {"job": "7"},
        }
    ]


def test_a_second_delivery_announces_under_the_same_id(tmp_path: Path) -> None:
    it = bench(tmp_path, interaction())

    it.fetcher.fetch(completed())
    it.fetcher.fetch(completed())

    ids = [message.id for _, message in it.publisher.published]
    assert ids == ["int_1/interaction.fetched"] * 2


def test_metadata_that_the_event_lacks_is_taken_from_the_interaction(tmp_path: Path) -> None:
    it = bench(tmp_path, interaction(webhook_config={"user_metadata": {"job": "8"}}))

    it.fetcher.fetch(completed())

    assert it.fetched().data.user_metadata == {"job": "8"}


def test_metadata_of_the_interaction_outranks_that_of_the_event(tmp_path: Path) -> None:
    it = bench(tmp_path, interaction(webhook_config={"user_metadata": {"job": "8"}}))

    it.fetcher.fetch(completed(user_metadata={"job": "7"}))

    assert it.fetched().data.user_metadata == {"job": "8"}


def test_metadata_that_no_message_could_carry_is_left_out(tmp_path: Path) -> None:
    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"deeper": deep}
    it = bench(tmp_path, interaction(webhook_config={"user_metadata": deep}))

    it.fetcher.fetch(completed(user_metadata={"job": "7"}))

    assert it.fetched().data.user_metadata == {"job": "7"}


@pytest.mark.parametrize("status", ["in_progress", "queued"])
def test_an_unfinished_interaction_is_waited_for_and_nothing_is_recorded(
    tmp_path: Path, status: str
) -> None:
    it = bench(tmp_path, interaction(status=status))

    with pytest.raises(NotYet, match=status):
        it.fetcher.fetch(completed())

    assert not it.publisher.published
    assert not it.jobs.rows
    assert it.results.read("interactions", "int_1", "json") is None


@pytest.mark.parametrize(
    "status",
    [
        "failed",
        "cancelled",
        "incomplete",
        "budget_exceeded",
    ],
)
def test_another_end_is_kept_and_recorded_under_its_name_and_not_announced(
    tmp_path: Path, status: str
) -> None:
    errors = [None, {"code": 3, "message": "no\n" + "x" * 900}]
    it = bench(tmp_path, interaction(status=status, errors=errors))

    it.fetcher.fetch(completed())

    assert not it.publisher.published
    assert it.results.read("interactions", "int_1", "json") is not None
    assert it.jobs.rows[0]["state"] == status
    assert it.jobs.rows[0]["error_code"] == "3"
    assert len(it.jobs.rows[0]["error_message"]) == 300


def test_one_that_waits_for_functions_is_handed_to_who_runs_them(tmp_path: Path) -> None:
    it = bench(tmp_path, interaction(status="requires_action"))

    it.fetcher.fetch(completed())

    exchange, message = it.publisher.published[0]
    assert (exchange, message.type) == (topology.RESULTS, "interaction.waiting")
    assert events.parse(message.body).data.id == "int_1"
    assert it.jobs.rows[0]["state"] == "requires_action"


@pytest.mark.parametrize("status", ["brand_new", "COMPLETED", "", None, 7, ["completed"], {}])
def test_a_status_nobody_knows_is_kept_never_success_and_asked_for_again(
    tmp_path: Path, status: Any
) -> None:
    it = bench(tmp_path, interaction(status=status))

    with pytest.raises(NotYet, match="still"):
        it.fetcher.fetch(completed())

    assert not it.publisher.published
    assert it.results.read("interactions", "int_1", "json") is not None
    assert it.jobs.rows[0]["state"] == "unknown"
    assert repr(status) in it.jobs.rows[0]["error_message"]


def test_a_missing_status_is_unknown(tmp_path: Path) -> None:
    it = bench(tmp_path, {"id": "int_1"})

    with pytest.raises(NotYet):
        it.fetcher.fetch(completed())

    assert it.jobs.rows[0]["state"] == "unknown"


@pytest.mark.parametrize("status", ["requires_continuation", "idle", "finalizing"])
def test_a_status_that_is_no_end_is_kept_until_there_is_one(tmp_path: Path, status: str) -> None:
    it = bench(tmp_path, interaction(status=status))
    with pytest.raises(NotYet, match=status):
        it.fetcher.fetch(completed())
    first = it.jobs.rows[0]["state"]
    it.gemini.answer = interaction(usage={"total_input_tokens": 5})

    it.fetcher.fetch(completed())

    assert first == (status if status != "finalizing" else "unknown")
    assert it.jobs.rows[-1]["state"] == "completed"
    assert it.fetched().data.text == "Hello"
    seconds = "gemhooks_result_seconds_count"  # it is counted once, at its end
    assert it.registry.get_sample_value(seconds, {"kind": "interaction"}) == 1


@pytest.mark.parametrize("status", ["requires_continuation", "idle", "brand_new"])
def test_an_event_that_speaks_of_that_very_status_is_done(tmp_path: Path, status: str) -> None:
    it = bench(tmp_path, interaction(status=status))

    it.fetcher.fetch_if_readable(ended(f"interaction.{status}"))

    assert it.jobs.rows[0]["state"] == (status if status != "brand_new" else "unknown")
    assert not it.publisher.published


@pytest.mark.parametrize(
    "steps",
    [
        None,
        [],
        {},
        "x",
        [None],
        [{"type": "model_output"}],
        [{"type": "model_output", "content": None}],
        [{"type": "model_output", "content": [None, {"type": "text", "text": None}]}],
    ],
)
def test_steps_without_a_text_are_an_empty_answer(tmp_path: Path, steps: Any) -> None:
    it = bench(tmp_path, interaction(steps=steps, usage=None))

    it.fetcher.fetch(completed())

    assert it.fetched().data.text == ""
    assert it.fetched().data.total_tokens == 0


def test_a_long_answer_is_cut_between_characters(tmp_path: Path) -> None:
    part = {"type": "text", "text": "x" + "ü" * 70_000}
    it = bench(tmp_path, interaction(steps=[{"type": "model_output", "content": [part]}]))

    it.fetcher.fetch(completed())

    assert len(it.fetched().data.text.encode()) == 64 * 1024 - 1


@pytest.mark.parametrize(
    "publisher",
    [MemoryPublisher(answers=False), MemoryPublisher(outcome=PublishFailed("nacked"))],
    ids=["silent", "nacked"],
)
def test_what_was_not_announced_is_not_recorded_but_tried_again(
    tmp_path: Path, publisher: MemoryPublisher
) -> None:
    it = bench(tmp_path, interaction(), publisher)

    with pytest.raises(PublishFailed):
        it.fetcher.fetch(completed())

    assert not it.jobs.rows


@pytest.mark.parametrize("error", [NotYet("not_found"), Retry("busy"), Refused("key")])
def test_what_gemini_cannot_give_is_left_to_the_runner(tmp_path: Path, error: Exception) -> None:
    it = bench(tmp_path, error)

    with pytest.raises(type(error)):
        it.fetcher.fetch(completed())

    assert not it.publisher.published
    assert not it.jobs.rows


def test_the_trace_of_the_event_goes_on_in_what_is_announced(tmp_path: Path) -> None:
    it = bench(tmp_path, interaction())

    it.fetcher.fetch(completed(user_metadata={"traceparent": "00-a-b-01"}))

    assert it.publisher.published[0][1].traceparent == "00-a-b-01"


def ended(event_type: str, **more: Any) -> events.InteractionEvent:
    event = events.parse(orjson.dumps({"type": event_type, "data": {"id": "int_1", **more}}))
    assert isinstance(event, events.InteractionEvent)
    return event


def test_a_failed_interaction_is_kept_whole_and_recorded_with_its_error(tmp_path: Path) -> None:
    answer = interaction(status="failed", errors=[{"code": "safety", "message": "no"}])
    it = bench(tmp_path, answer)

    it.fetcher.fetch_if_readable(ended("interaction.failed"))

    assert it.results.read("interactions", "int_1", "json") == orjson.dumps(answer)
    assert (it.jobs.rows[0]["state"], it.jobs.rows[0]["error_code"]) == ("failed", "safety")
    assert not it.publisher.published


@pytest.mark.parametrize("error", [NotYet("not_found"), Gone("deleted")])
def test_of_a_failure_the_event_may_be_all_there_is(tmp_path: Path, error: Exception) -> None:
    it = bench(tmp_path, error)

    it.fetcher.fetch_if_readable(ended("interaction.failed", error_code=13, error_message="x"))

    assert (it.jobs.rows[0]["state"], it.jobs.rows[0]["error_code"]) == ("failed", "13")


def test_a_failure_that_cannot_be_read_now_is_tried_again(tmp_path: Path) -> None:
    it = bench(tmp_path, interaction(status="in_progress"))

    with pytest.raises(NotYet, match="in_progress"):
        it.fetcher.fetch_if_readable(ended("interaction.failed"))


def test_a_summary_lies_beside_the_whole_and_its_tokens_are_counted(tmp_path: Path) -> None:
    by_modality = [{"modality": "TEXT", "tokens": 5}, {"modality": "image", "tokens": 2}]
    usage = {"total_input_tokens": 8, "input_tokens_by_modality": by_modality, "total_tokens": 8}
    it = bench(tmp_path, interaction(model="models/gemini-3.8-flash", usage=usage))

    it.fetcher.fetch(completed())

    stored = it.results.read("interactions", "int_1", "summary.json")
    assert stored is not None
    assert orjson.loads(stored)["total_tokens"] == 8
    assert it.fetched().data.summary_url.endswith("/interactions/int_1.summary.json")

    def counted(modality: str) -> float | None:
        labels = {"model": "gemini-3.8-flash", "kind": "input", "modality": modality}
        return it.registry.get_sample_value("gemhooks_tokens_total", labels)

    assert (counted("text"), counted("image"), counted("unspecified")) == (5, 2, 1)


def test_an_id_with_its_collection_in_front_is_the_same_interaction(tmp_path: Path) -> None:
    it = bench(tmp_path, interaction())

    it.fetcher.fetch(completed(id="interactions/int_1"))

    assert it.results.read("interactions", "int_1", "json") is not None
