"""A batch as it is asked for, kept, shown and announced."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from gemhooks.simulator.clock import alphanumeric, rfc3339
from gemhooks.simulator.plans import BatchPlan
from gemhooks.simulator.variants import GOOGLE, Variants
from gemhooks.simulator.webhook_config import WebhookConfig

Json = Mapping[str, Any]

PENDING, RUNNING = "pending", "running"
KIND = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch"


class _Wire(BaseModel):
    """In either case, as Google's APIs take it: the guide's samples have snake case."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class InlinedRequest(_Wire):
    request: Json
    metadata: Json = {}


class InlinedRequests(_Wire):
    requests: tuple[InlinedRequest, ...] = Field(min_length=1)


class InputConfig(_Wire):
    file_name: str | None = None
    requests: InlinedRequests | None = None


class BatchRequest(_Wire):
    """The `batch` of a create call."""

    input_config: InputConfig
    display_name: str = ""
    priority: int | str | None = None
    webhook_config: WebhookConfig | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    request: BatchRequest
    model: str
    embeds: bool
    plan: BatchPlan
    id: str = field(default_factory=lambda: alphanumeric(36))
    state: str = PENDING
    inlined: tuple[Any, ...] | None = None
    output: str | None = None  # the name of a file
    error: Json | None = None
    successes: int = 0
    failures: int = 0
    created: str = field(default_factory=rfc3339)
    updated: str = field(default_factory=rfc3339)
    ended: str | None = None

    @property
    def name(self) -> str:
        return f"batches/{self.id}"

    @property
    def is_open(self) -> bool:
        return self.state in (PENDING, RUNNING)

    @property
    def is_from_file(self) -> bool:
        return self.request.input_config.requests is None


def resource(batch: Batch, variants: Variants) -> dict[str, Any]:
    """The batch as a long-running operation."""
    state = f"{variants.batch_state}_{batch.state.upper()}"
    answer: dict[str, Any] = {"name": batch.name, "metadata": _metadata(batch)}
    if variants.batch_state_at in ("metadata", "both"):
        answer["metadata"]["state"] = state
    if variants.batch_state_at in ("top", "both"):
        answer["state"] = state
    answer["done"] = not batch.is_open
    if batch.error is not None:
        answer["error"] = batch.error
    if output := _output(batch):
        _place(answer, output, variants.batch_results_at)
    return answer


def _metadata(batch: Batch) -> dict[str, Any]:
    metadata = {
        "@type": KIND,
        "name": batch.name,
        "model": batch.model,
        "displayName": batch.request.display_name,
        "createTime": batch.created,
        "updateTime": batch.updated,
        "batchStats": _stats(batch),
    }
    return metadata if batch.ended is None else metadata | {"endTime": batch.ended}


def _stats(batch: Batch) -> dict[str, str]:
    """Counts as JSON writes int64, as strings; a count of nothing is not there."""
    requested = batch.successes + batch.failures
    if batch.is_open and batch.request.input_config.requests is not None:
        requested = len(batch.request.input_config.requests.requests)
    counts = {
        "requestCount": requested,
        "successfulRequestCount": batch.successes,
        "failedRequestCount": batch.failures,
        "pendingRequestCount": requested if batch.is_open else 0,
    }
    return {name: str(count) for name, count in counts.items() if count}


def _output(batch: Batch) -> dict[str, Any]:
    if batch.output is not None:
        return {"responsesFile": batch.output}
    if batch.inlined is not None:
        return {"inlinedResponses": {"inlinedResponses": list(batch.inlined)}}
    return {}


def _place(answer: dict[str, Any], output: dict[str, Any], place: str) -> None:
    if place in ("metadata", "both"):
        answer["metadata"]["output"] = output
    if place in ("response", "both"):
        answer["response"] = {"@type": KIND, **output}
    if place == "top":  # as one sample of the guide reads it
        answer["dest"] = (
            {"fileName": batch_file} if (batch_file := output.get("responsesFile")) else output
        )


def event(batch: Batch, variants: Variants) -> tuple[str, dict[str, Any]]:
    """The type and data of the event that says how *batch* ended."""
    data: dict[str, Any] = {"id": _event_id(batch, variants.batch_id)}
    if batch.error is not None:
        data |= {"error_code": batch.error["code"], "error_message": batch.error["message"]}
    if batch.output is not None and variants.batch_output_uri != "absent":
        data["output_file_uri"] = _uri(batch.output, variants)
    named = f"batch.{batch.state}"
    return variants.batch_succeeded if named == "batch.succeeded" else named, data


def _event_id(batch: Batch, shape: str) -> str:
    return {"prefixed": batch.name, "bare": batch.id, "operation": f"operations/{batch.id}"}[shape]


def _uri(name: str, variants: Variants) -> str:
    shown = f"{variants.base_uri or GOOGLE}/v1beta/{name}"
    shapes = {
        "files": name,
        "https": shown,
        "download": f"{shown}:download?alt=media",
        "gs": f"gs://simulated-bucket/{name.removeprefix('files/')}.jsonl",
    }
    return shapes[variants.batch_output_uri]
