"""Fetches generated videos at once: Gemini deletes them after two days."""

import base64
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import structlog

from gemhooks import events, heads, jsontext
from gemhooks.errors import Gone, NotYet, Refused, Retry
from gemhooks.gemini.files import Download
from gemhooks.messages import Publisher
from gemhooks.metrics import ResultMetrics
from gemhooks.results import Partial, ResultsStore
from workers import answers, samples
from workers.announcing import announce
from workers.batches import OperationReader
from workers.downloading import Downloading, FileReader, NoSink
from workers.ports import InteractionReader, JobRecorder
from workers.progress import unnoted
from workers.samples import Sample
from workers.telling import ResultIndex, told

VIDEOS, MP4, METADATA = "videos", "mp4", "json"
LARGEST = 8 << 30  # bytes
# What servers call a video, or do not; its first bytes decide.
TYPES = re.compile(r"(video/.*|(application|binary)/octet-stream.*|)", re.IGNORECASE)
FTYP = slice(4, 8)  # an MP4 file begins with the length of a box and the box's name

Json = dict[str, Any]
log = structlog.get_logger()


@dataclass(frozen=True)
class VideoFetcher:
    """Stores each sample of a video, and what is known of it."""

    operations: OperationReader
    interactions: InteractionReader
    files: FileReader
    results: ResultsStore
    index: ResultIndex
    publisher: Publisher
    jobs: JobRecorder
    metrics: ResultMetrics
    further: Callable[[], None] = unnoted

    def fetch(self, event: events.VideoGenerated) -> None:
        for number, source in enumerate(self._sources(event), start=1):
            self._fetch_sample(event, number, source)
        self.jobs.record(
            "video",
            event.data.id,
            "generated",
            event_type=event.type,
            user_metadata=event.data.user_metadata or None,
        )

    def _sources(self, event: events.VideoGenerated) -> list[str | bytes]:
        """Where the samples are: what Gemini says of the job, else what the event says."""
        named = event.data.file_name or event.data.output_file_uri
        try:
            found = list(self._looked_up(event.data.id))
        except (NotYet, Gone, Refused):
            if not named:
                raise
            found = []
        sources: list[str | bytes] = found or ([named] if named else [])
        if not sources:
            raise Refused("the event names no video, and its id leads to none")
        return sources

    def _looked_up(self, job_id: str) -> Iterator[str | bytes]:
        if "/operations/" in job_id:
            yield from _of_operation(self.operations.get(job_id))
        elif job_id.startswith("v1_"):
            yield from _of_interaction(self.interactions.get(job_id).parsed)

    def _fetch_sample(self, event: events.VideoGenerated, number: int, source: str | bytes) -> None:
        bare = heads.bare_id(event.data.id)
        name = bare if number == 1 else f"{bare}-{number}"
        known = self.results.read(VIDEOS, name, METADATA)
        metadata = jsontext.loads(known) if known else self._stored(name, source)
        data = metadata | {"id": event.data.id, "user_metadata": event.data.user_metadata}
        announce(self.publisher, [told(event, "video.fetched", data, key=str(number))])
        log.info("video_fetched", id=name, size=metadata["size"])

    def _stored(self, name: str, source: str | bytes) -> Json:
        began = time.monotonic()
        with self.results.partial(VIDEOS, name, MP4) as partial:
            fetched = self._fill(partial, source)
            size = _checked(partial)
            url = self.results.put(partial, VIDEOS, name, MP4)
        metadata = {"result_url": url, "size": size, "content_type": "video/mp4"}
        # Written last: where it is, the video is whole.
        self.results.write(VIDEOS, name, METADATA, jsontext.dumps(metadata))
        self.index.record("video", name, url, size)
        self.metrics.fetched("video", fetched, time.monotonic() - began)
        return metadata

    def _fill(self, partial: Partial, source: str | bytes) -> int:
        if isinstance(source, bytes):
            partial.truncate()
            partial.write(source)
            return len(source)
        download = Downloading(
            self.files, source, partial, NoSink(), accept=_accept, further=self.further
        )
        download.run()
        return download.fetched


def _accept(download: Download) -> None:
    """Refuse by the first answer what is too large, or a page where a video should be."""
    if download.total is not None and download.total > LARGEST:
        raise Refused(f"the video is larger than {LARGEST >> 30} GiB")
    if not TYPES.fullmatch(download.content_type):
        raise Refused(f"not a video, but {download.content_type[:60]}")


def _checked(partial: Partial) -> int:
    size = partial.size
    with partial.path.open("rb") as file:
        head = file.read(FTYP.stop)
    if not size:
        raise Retry("the video is empty so far")
    if head[FTYP] != b"ftyp":
        partial.truncate()
        raise Refused(f"what came is no MP4 file ({size} bytes)")
    return size


def _of_operation(operation: Json) -> Iterator[str | bytes]:
    if operation.get("done") is not True:
        raise NotYet("the video is still being made")
    yield from map(_source, samples.of_operation(operation))


def _of_interaction(interaction: Json) -> Iterator[str | bytes]:
    for step in answers.objects(interaction.get("steps")):
        if step.get("type") == "model_output":
            for part in answers.objects(step.get("content")):
                if part.get("type") == "video":
                    yield from map(_source, samples.of_video(part))


def _source(sample: Sample) -> str | bytes:
    """A pointer, or the video itself."""
    if sample.uri:
        return sample.uri
    try:
        return base64.b64decode(sample.inline, validate=True)
    except ValueError:
        raise Refused("the video in the answer is no base64") from None
