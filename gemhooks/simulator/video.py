"""A video as it is asked for, kept, shown and announced."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from gemhooks.simulator.clock import alphanumeric
from gemhooks.simulator.plans import Status, VideoPlan
from gemhooks.simulator.variants import Variants
from gemhooks.simulator.webhook_config import WebhookConfig

RESPONSE = "type.googleapis.com/google.ai.generativelanguage.v1beta.PredictLongRunningResponse"
FILTERED = "The video was filtered, as its plan says."


class VideoRequest(BaseModel):
    """The body of :predictLongRunning; names in either case, as for a batch."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )

    instances: tuple[Mapping[str, Any], ...] = Field(min_length=1)
    parameters: Mapping[str, Any] = {}
    webhook_config: WebhookConfig | None = None

    @property
    def prompt(self) -> str:
        return " ".join(str(instance.get("prompt", "")) for instance in self.instances)


@dataclass(frozen=True, slots=True)
class Video:
    request: VideoRequest
    model: str
    plan: VideoPlan
    id: str = field(default_factory=lambda: alphanumeric(12))
    done: bool = False
    samples: tuple[str, ...] = ()  # names of files
    error: Status | None = None

    @property
    def name(self) -> str:
        return f"{self.model}/operations/{self.id}"


def resource(video: Video, base_uri: str) -> dict[str, Any]:
    """The video as a long-running operation; it says `done` only when it is."""
    if not video.done:
        return {"name": video.name}
    answer: dict[str, Any] = {"name": video.name, "done": True}
    if video.error is not None:
        return answer | {"error": video.error}
    return answer | {
        "response": {"@type": RESPONSE, "generateVideoResponse": _videos(video, base_uri)}
    }


def _videos(video: Video, base_uri: str) -> dict[str, Any]:
    if not video.samples:
        return {"raiMediaFilteredCount": 1, "raiMediaFilteredReasons": [FILTERED]}
    samples = [{"video": {"uri": _uri(video, name, base_uri)}} for name in video.samples]
    return {"generatedSamples": samples}


def _uri(video: Video, name: str, base_uri: str) -> str:
    return video.plan.uri or f"{base_uri}/v1beta/{name}:download?alt=media"


def event(video: Video, base_uri: str, variants: Variants) -> dict[str, Any]:
    """The data of `video.generated`, which points at the first sample."""
    data = {"id": video.name if variants.video_id == "operation" else video.id}
    if not video.samples:
        return data
    name = video.samples[0]
    uri = _uri(video, name, base_uri)
    fields = {
        "output_file_uri": uri,
        "video_uri": uri,
        "uri": uri,
        "file_name": name,
        "file_uri": name,
    }
    wanted = variants.video_fields.split("+")
    return data | {name: value for name, value in fields.items() if name in wanted}
