import base64
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry

from gemhooks import events, heads
from gemhooks.errors import Gone, NotYet, Refused, Retry
from gemhooks.gemini import Gemini
from gemhooks.metrics import ResultMetrics
from gemhooks.results import ResultsStore
from gemhooks.simulator import Simulator, Variants, VideoPlan
from tests.services.waiting import wait_until
from tests.workers.fetching import (
    MP4,
    MemoryFiles,
    MemoryIndex,
    MemoryJobs,
    MemoryOperations,
    MemoryPublisher,
    ask,
    event,
)
from tests.workers.gemini import MemoryGemini
from workers.videos import VideoFetcher, _of_interaction

Json = dict[str, Any]
NAME = "models/veo/operations/op1"


@dataclass
class Bench:
    """A fetcher and all that it touches."""

    results: ResultsStore
    operations: Any = field(default_factory=MemoryOperations)
    files: Any = field(default_factory=MemoryFiles)
    interactions: MemoryGemini = field(default_factory=MemoryGemini)
    publisher: MemoryPublisher = field(default_factory=MemoryPublisher)
    jobs: MemoryJobs = field(default_factory=MemoryJobs)
    index: MemoryIndex = field(default_factory=MemoryIndex)

    def fetch(self, video: events.VideoGenerated) -> None:
        VideoFetcher(
            self.operations,
            self.interactions,
            self.files,
            self.results,
            self.index,
            self.publisher,
            self.jobs,
            ResultMetrics(CollectorRegistry()),
        ).fetch(video)

    def stored(self, name: str = "op1") -> bytes | None:
        return self.results.read("videos", name, "mp4")


@pytest.fixture
def it(tmp_path: Path) -> Bench:
    return Bench(ResultsStore(str(tmp_path)))


@pytest.mark.parametrize(
    "pointer",
    [
        {"output_file_uri": "https://generativelanguage.googleapis.com/v1beta/files/a"},
        {"video_uri": "https://generativelanguage.googleapis.com/v1beta/files/a"},
        {"uri": "https://generativelanguage.googleapis.com/v1beta/files/a"},
        {"file_name": "https://generativelanguage.googleapis.com/v1beta/files/a"},
        {"file_uri": "https://generativelanguage.googleapis.com/v1beta/files/a"},
    ],
)
def test_every_field_that_points_at_a_video_is_understood(it: Bench, pointer: Json) -> None:
    it.files.content = {next(iter(pointer.values())): MP4}

    it.fetch(event("video.generated", id=NAME, **pointer))

    assert it.stored() == MP4
    told = it.publisher.bodies("video.fetched")[0]
    assert (told["size"], told["content_type"]) == (len(MP4), "video/mp4")
    assert it.jobs.last["state"] == "generated"
    assert it.index.rows == [("video", "op1", told["result_url"], len(MP4))]


def operation(*uris: str) -> Json:
    samples = [{"video": {"uri": uri}} for uri in uris]
    response = {"generateVideoResponse": {"generatedSamples": samples}}
    return {"name": NAME, "done": True, "response": response}


def test_every_sample_of_a_job_is_stored(it: Bench) -> None:
    it.files.content = {"files/a": MP4 + b"a", "files/b": MP4 + b"b"}
    it.operations.found = {NAME: operation("files/a", "files/b")}

    it.fetch(event("video.generated", id=NAME, file_name="files/a"))

    assert (it.stored(), it.stored("op1-2")) == (MP4 + b"a", MP4 + b"b")
    assert [each.id for each in it.publisher.published] == [
        "op1/video.fetched/1",
        "op1/video.fetched/2",
    ]


def test_a_video_of_an_interaction_is_found_in_its_steps(it: Bench) -> None:
    data = base64.b64encode(MP4).decode()
    content = [{"type": "text", "text": "x"}, {"type": "video", "data": data}]
    steps = [None, {"type": "model_output", "content": content}]
    it.interactions.interactions = {"v1_x": {"id": "v1_x", "steps": steps}}

    it.fetch(event("video.generated", id="v1_x"))

    assert it.stored("v1_x") == MP4


@pytest.mark.parametrize("inline", ["AAA", "\u00e9" * 4, "AAA\n", "*&^%"])
def test_a_video_that_is_no_base64_is_refused(it: Bench, inline: str) -> None:
    made = {"generatedSamples": [{"video": {"encodedVideo": inline}}]}
    it.operations.found = {NAME: {"name": NAME, "done": True, "response": made}}

    with pytest.raises(Refused, match="no base64"):
        it.fetch(event("video.generated", id=NAME))


def test_a_job_that_cannot_be_looked_up_does_not_matter_if_the_event_points(it: Bench) -> None:
    it.files.content = {"files/a": MP4}
    it.operations.found = {NAME: Refused("no")}

    it.fetch(event("video.generated", id=NAME, file_name="files/a"))

    assert it.stored() == MP4


@pytest.mark.parametrize("error", [NotYet("not_found"), Gone("x"), Refused("x"), Retry("busy")])
def test_what_nobody_can_find_is_left_to_the_runner(it: Bench, error: Exception) -> None:
    it.operations.found = {NAME: error}

    with pytest.raises(type(error)):
        it.fetch(event("video.generated", id=NAME))


def test_an_event_that_leads_nowhere_is_refused(it: Bench) -> None:
    with pytest.raises(Refused, match="names no video"):
        it.fetch(event("video.generated", id="bare"))


@pytest.mark.parametrize("done", [None, False, "false", 0])
def test_a_job_that_is_not_done_is_waited_for(it: Bench, done: Any) -> None:
    it.operations.found = {NAME: operation("files/a") | {"done": done}}

    with pytest.raises(NotYet, match="still being made"):
        it.fetch(event("video.generated", id=NAME))


@pytest.mark.parametrize(
    ("content", "content_type", "error"),
    [
        (b"", "video/mp4", Retry),
        (b"<html>please log in</html>", "video/mp4", Refused),
        (MP4, "text/html", Refused),
        (MP4, "application/json; charset=UTF-8", Refused),
    ],
)
def test_what_is_no_video_is_not_stored(
    it: Bench, content: bytes, content_type: str, error: type[Exception]
) -> None:
    it.files.content = {"files/a": content}
    it.files.content_type = content_type

    with pytest.raises(error):
        it.fetch(event("video.generated", id=NAME, file_name="files/a"))

    assert it.stored() is None
    assert not it.publisher.published


def test_half_a_video_is_kept_aside_and_gone_on_with(it: Bench) -> None:
    whole = MP4 + bytes(5000)
    it.files = MemoryFiles({"files/a": whole}, cuts=[3000])

    with pytest.raises(Retry):
        it.fetch(event("video.generated", id=NAME, file_name="files/a"))
    assert it.stored() is None

    it.fetch(event("video.generated", id=NAME, file_name="files/a"))
    assert it.stored() == whole


def test_a_second_delivery_fetches_nothing_again(it: Bench) -> None:
    it.files.content = {"files/a": MP4}
    it.fetch(event("video.generated", id=NAME, file_name="files/a"))

    it.fetch(event("video.generated", id=NAME, file_name="files/a"))

    assert len(it.files.opened) == 1
    first, second = it.publisher.published
    assert (first.id, first.body) == (second.id, second.body)


def test_a_failed_download_starts_nothing_anew(it: Bench) -> None:
    it.operations.found = {NAME: operation("files/a")}

    for _ in range(20):
        with pytest.raises(NotYet):
            it.fetch(event("video.generated", id=NAME))

    assert it.files.opened == [("files/a", 0)] * 20


@pytest.fixture
def gemini() -> Iterator[Simulator]:
    with Simulator(delay=0.0, videos=[VideoPlan(samples=2, bytes=300_000)]) as simulator:
        yield simulator


def is_done(client: Gemini, job: str) -> bool:
    return bool(client.operations.get(job).get("done"))


def test_the_simulators_videos_arrive_whole_under_every_variant(
    it: Bench, gemini: Simulator
) -> None:
    fields = Variants.model_fields["video_fields"].annotation
    with closing(Gemini("any", base_url=gemini.url, timeout=60.0)) as client:
        it.operations, it.files = client.operations, client.files
        for _ in getattr(fields, "__args__", ()):
            url = f"{gemini.url}/v1/models/veo:predictLongRunning"
            job = ask(url, {"instances": [{"prompt": "a cat"}]})["name"]
            wait_until(partial(is_done, client, job), "the video")

            it.fetch(event("video.generated", id=job))

            stored = it.stored(heads.bare_id(job))
            assert stored is not None
            assert len(stored) == 300_000


def test_nothing_is_fetched_from_where_a_payload_says(it: Bench, gemini: Simulator) -> None:
    with closing(Gemini("any", base_url=gemini.url, timeout=60.0)) as client:
        it.files = client.files
        for place in (
            "https://evil.test/v.mp4",
            "http://127.0.0.1:1/v.mp4",
            "gs://b/v.mp4",
            "/etc/x",
        ):
            with pytest.raises(Refused):
                it.fetch(event("video.generated", id="bare", output_file_uri=place))


def test_what_is_known_of_a_video_lies_beside_it(it: Bench) -> None:
    it.files.content = {"files/a": MP4}

    it.fetch(event("video.generated", id=NAME, file_name="files/a"))

    stored = it.results.read("videos", "op1", "json")
    assert stored is not None
    assert orjson.loads(stored)["size"] == len(MP4)


@pytest.mark.parametrize(
    "steps", [5, True, {}, "x", [None], [{"type": "model_output", "content": 5}]]
)
def test_odd_steps_hold_no_video(steps: object) -> None:
    assert list(_of_interaction({"steps": steps})) == []
