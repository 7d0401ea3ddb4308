"""A hint's body is believed by nobody: the built-in consumers on a real ledger."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry

from gemhooks import events, topology
from gemhooks.consumers import Consumers
from gemhooks.errors import Gone, NotYet
from gemhooks.functions import marks
from gemhooks.functions.chains import Place, SendState
from gemhooks.ledger import Ledgers, open_ledger
from gemhooks.metrics import ResultMetrics
from gemhooks.results import ResultsStore
from gemhooks.testing import handle, message
from tests.workers.fetching import MP4, MemoryFiles, MemoryOperations, MemoryPublisher
from tests.workers.gemini import MemoryGemini
from workers import sightings
from workers.batches import BatchFetcher
from workers.chains import Chains
from workers.interactions import InteractionFetcher
from workers.sightings import Sighting
from workers.videos import VideoFetcher
from workers.wiring import built_in_consumers

Json = dict[str, Any]
VIDEO = "models/veo/operations/op1"
FORGED: Json = {
    "error_code": 9,
    "error_message": "FORGED",
    "user_metadata": {"order": "FORGED", "traceparent": "00-FORGED"},
    "output_file_uri": "files/forged",
    "file_name": "files/forged",
}
ENDS = (
    "interaction.completed",
    "interaction.failed",
    "interaction.cancelled",
    "interaction.brand_new",
    "interaction.requires_action",
    "batch.succeeded",
    "batch.failed",
    "batch.expired",
    "batch.cancelled",
    "video.generated",
    "video.failed",
    "video.brand_new",
)
IDS = {"interaction": "v1_x", "batch": "batches/b1", "video": VIDEO}


@dataclass
class Bench:
    """All built-in consumers, and a Gemini in memory."""

    ledgers: Ledgers
    results: ResultsStore
    operations: MemoryOperations = field(default_factory=MemoryOperations)
    interactions: MemoryGemini = field(default_factory=MemoryGemini)
    files: MemoryFiles = field(default_factory=lambda: MemoryFiles({"files/forged": MP4}))
    publisher: MemoryPublisher = field(default_factory=MemoryPublisher)

    def look(self, kind: str, job_id: str) -> Sighting:
        if kind == "interaction":
            return sightings.of_interaction(self.interactions.get(job_id).parsed)
        return sightings.of_video(self.operations.get(job_id))

    def consumers(self) -> Consumers:
        metrics = ResultMetrics(CollectorRegistry())
        store = (self.results, self.ledgers.results, self.publisher, self.ledgers.jobs, metrics)
        return built_in_consumers(
            self.interactions,
            self.results,
            self.publisher,
            self.ledgers.jobs,
            metrics=metrics,
            batches=BatchFetcher(self.operations, self.files, *store),
            videos=VideoFetcher(self.operations, self.interactions, self.files, *store),
            look=self.look,
        )

    def hint(self, name: str, id: str = "", *, attempt: int = 1, trust: str = "hint") -> list[str]:  # noqa: A002
        """Give the forged event to each queue that takes it; how it ended there."""
        given = id or IDS[name.partition(".")[0]]
        told = message(name, id=given, attempt=attempt, trust=trust, **FORGED)
        return [
            str(ended.dead_letter.reason if ended.dead_letter else ended.retry_after or "done")
            for ended in (
                handle(self.consumers(), told, queue=queue.name)
                for queue in topology.BUILT_IN
                if any(topology.matches(pattern, name) for _, pattern in queue.bindings)
            )
        ]

    def everything(self) -> str:
        """All that was written or published, as one text."""
        told = [each.body.decode() + each.traceparent for each in self.publisher.published]
        return "".join([*map(str, self.ledgers.jobs.list()), *told])


@pytest.fixture
def it(tmp_path: Path) -> Iterator[Bench]:
    with closing(open_ledger(f"sqlite:///{tmp_path}/ledger.db")) as ledgers:
        yield Bench(ledgers, ResultsStore(str(tmp_path / "results")))


@pytest.mark.parametrize("name", ENDS)
def test_of_what_gemini_does_not_know_a_hint_records_nothing(it: Bench, name: str) -> None:
    first, third = it.hint(name), it.hint(name, attempt=3)

    assert set(first) == {"5.0"}
    assert set(third) == {"not_found"}
    assert it.ledgers.jobs.list() == ()
    assert not it.publisher.published
    assert not it.files.opened


@pytest.mark.parametrize("name", ["interaction.failed", "batch.failed", "video.failed"])
def test_of_what_is_gone_a_hint_records_nothing(it: Bench, name: str) -> None:
    it.operations.found = {VIDEO: Gone("410"), "batches/b1": Gone("410")}

    assert it.hint(name)[0] in ("5.0", "rejected")
    assert it.ledgers.jobs.list() == ()


@pytest.mark.parametrize("name", ["interaction.failed", "batch.failed", "video.failed"])
def test_what_is_signed_as_a_whole_is_still_believed(it: Bench, name: str) -> None:
    assert it.hint(name, trust="body") == ["done"]

    (job,) = it.ledgers.jobs.list()
    assert (job.state, job.error_message) == ("failed", "FORGED")


@pytest.mark.parametrize("name", ENDS)
def test_no_hint_ends_what_runs(it: Bench, name: str) -> None:
    kind = name.partition(".")[0]
    it.ledgers.jobs.record(kind, IDS[kind], "started", ours=True)
    it.operations.found = {
        VIDEO: {"name": VIDEO},
        "batches/b1": {"name": "batches/b1", "metadata": {"state": "JOB_STATE_RUNNING"}},
    }
    it.interactions.interactions = {"v1_x": {"id": "v1_x", "status": "in_progress"}}

    assert set(it.hint(name)) == {"5.0"}

    (job,) = it.ledgers.jobs.list()
    assert (job.state, job.ended_at, job.user_metadata) == ("started", None, None)


def ended(it: Bench) -> None:
    """What Gemini says of three ends."""
    error = {"code": 8, "message": "no quota"}
    it.operations.found = {
        VIDEO: {"name": VIDEO, "done": True, "error": error},
        "batches/b1": {
            "name": "batches/b1",
            "done": True,
            "metadata": {"state": "JOB_STATE_FAILED"},
            "error": error,
        },
    }
    failed = {"id": "v1_x", "status": "failed", "errors": [error]}
    it.interactions.interactions = {"v1_x": failed}


@pytest.mark.parametrize("name", ["interaction.failed", "batch.failed", "video.failed"])
def test_an_end_that_gemini_confirms_is_recorded_in_geminis_words(it: Bench, name: str) -> None:
    ended(it)

    assert it.hint(name) == ["done"]

    (job,) = it.ledgers.jobs.list()
    assert (job.state, job.error_code, job.error_message) == ("failed", "8", "no quota")
    assert "FORGED" not in it.everything()


def test_a_result_is_fetched_without_a_word_of_the_hint(it: Bench) -> None:
    rows: Json = {"inlinedResponses": {"inlinedResponses": [{"response": {}}]}}
    state = {"state": "JOB_STATE_SUCCEEDED"}
    samples = {"generatedSamples": [{"video": {"uri": "files/real"}}]}
    it.files.content["files/real"] = MP4
    it.operations.found = {
        VIDEO: {"name": VIDEO, "done": True, "response": {"generateVideoResponse": samples}},
        "batches/b1": {"name": "batches/b1", "done": True, "metadata": state, "response": rows},
    }
    it.interactions.interactions = {"v1_x": {"id": "v1_x", "status": "completed"}}

    for name in ("interaction.completed", "batch.succeeded", "video.generated"):
        assert it.hint(name) == ["done"]

    told = {each.type for each in it.publisher.published}
    assert told == {"interaction.fetched", "batch.fetched", "video.fetched"}
    assert [source for source, _ in it.files.opened] == ["files/real"]
    assert "FORGED" not in it.everything()


def test_a_hint_that_invents_an_id_downloads_nothing(it: Bench) -> None:
    assert it.hint("video.generated", "victim-video") == ["rejected"]

    assert not it.files.opened
    assert it.ledgers.jobs.list() == ()


def test_what_we_noted_ourselves_is_used(it: Bench) -> None:
    """A hint names a job by its short id; we know the long one, and the metadata of its start."""
    it.ledgers.jobs.record("video", VIDEO, "started", user_metadata={"order": 7}, ours=True)
    samples = {"generatedSamples": [{"video": {"uri": "files/forged"}}]}
    response = {"generateVideoResponse": samples}
    it.operations.found = {VIDEO: {"name": VIDEO, "done": True, "response": response}}

    assert it.hint("video.generated", "op1") == ["done"]

    assert it.publisher.bodies("video.fetched")[0]["user_metadata"] == {"order": 7}


def test_a_hint_of_a_failure_does_not_end_a_video_that_was_made(it: Bench) -> None:
    it.ledgers.jobs.record("video", VIDEO, "started", ours=True)
    samples = {"generatedSamples": [{"video": {"uri": "files/real"}}]}
    response = {"generateVideoResponse": samples}
    it.operations.found = {VIDEO: {"name": VIDEO, "done": True, "response": response}}

    assert it.hint("video.failed") == ["5.0"]

    (job,) = it.ledgers.jobs.list()
    assert job.state == "started"


def test_a_consumer_of_a_user_gets_the_hint_as_it_came() -> None:
    consumers, seen = Consumers(), list[events.Event]()
    consumers.on(events.BatchFailed, queue="mine")(seen.append)

    handle(consumers, message("batch.failed", trust="hint", **FORGED))

    assert seen[0].data.user_metadata == FORGED["user_metadata"]


def test_a_continuation_whose_hint_carries_its_key_is_noticed_in_geminis_answer(
    it: Bench,
) -> None:
    continuations = it.ledgers.continuations
    begun = continuations.begin("v1_a", Place("v1_a"), lease=30.0, wait=30.0)
    continuations.lost("v1_a")
    config = {"user_metadata": {marks.MARK: begun.continuation.key}}
    answer = {"id": "v1_b", "status": "completed", "webhook_config": config}
    it.interactions.interactions = {"v1_b": answer}
    body = orjson.dumps({"type": "interaction.completed", "data": {"id": "v1_b"}})
    event = events.parse(body)
    assert isinstance(event, events.InteractionCompleted)

    fetcher = InteractionFetcher(
        it.interactions,
        it.results,
        it.publisher,
        it.ledgers.jobs,
        ResultMetrics(CollectorRegistry()),
    )
    replace(fetcher, chains=Chains(continuations, it.ledgers.jobs)).fetch(event)

    found = continuations.of("v1_a")
    assert found is not None
    assert (found.state, found.successor_id) == (SendState.SENT, "v1_b")


@pytest.mark.parametrize("error", [NotYet("busy"), Gone("410")])
def test_what_cannot_be_asked_is_not_believed(it: Bench, error: Exception) -> None:
    it.operations.found = {VIDEO: error}

    assert it.hint("video.failed") != ["done"]
    assert it.ledgers.jobs.list() == ()
