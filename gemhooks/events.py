"""The Gemini webhook events, one class per type, and the results our workers make of them.

Sources: the event catalog of Gemini's webhooks guide and the Webhooks API reference. Where the two
or the services in the wild disagree, every variant is read.
"""

from typing import Annotated, Any, ClassVar

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)

from gemhooks import heads, jsontext, topology
from gemhooks.errors import Undecodable

LONGEST_ID = 2048  # characters
DEEPEST = 200  # levels of nesting; a body deeper than that is nobody's event


def _plain(value: Any) -> Any:
    """A code or a text; anything else is not worth refusing the event for."""
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


Code = Annotated[int | str | None, BeforeValidator(_plain)]
Text = Annotated[str | None, BeforeValidator(_text)]


class Resource(BaseModel, frozen=True, extra="allow"):
    """What the event is about. Gemini sends pointers; the result is fetched later."""

    id: str = Field(min_length=1, max_length=LONGEST_ID)
    user_metadata: dict[str, Any] = {}


class Failure(Resource, frozen=True):
    """A resource that failed, with what Gemini says of it."""

    error_code: Code = None
    error_message: Text = None


class Batch(Failure, frozen=True):
    """A batch; only jobs with a file as input have an output file."""

    output_file_uri: Text = None


class Video(Failure, frozen=True):
    """A generated video; the field that points at it has had several names."""

    output_file_uri: Text = Field(
        default=None, validation_alias=AliasChoices("output_file_uri", "video_uri", "uri")
    )
    file_name: Text = Field(default=None, validation_alias=AliasChoices("file_name", "file_uri"))


class Event(BaseModel, frozen=True, extra="allow"):
    """What every event carries. Subscribe to this class to see them all."""

    types: ClassVar[tuple[str, ...]] = ("#",)  # routing patterns
    exchange: ClassVar[str] = topology.EVENTS

    type: str = Field(validation_alias=AliasChoices("type", "event_type"))
    version: str | None = None
    timestamp: Text = None
    data: Resource

    @property
    def canonical_type(self) -> str:
        """Its type, by its newest name: ``batch.completed`` is told as ``batch.succeeded``."""
        first = type(self).types[0]
        return self.type if {"*", "#"} & set(first) else first

    @property
    def subject(self) -> str:
        """What it tells, whatever names it tells it by: the same text for every copy."""
        return heads.subject(self.canonical_type, self.data.id)

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        """Bring the id and the user's metadata to where the guide puts them."""
        data = heads.data_in(given)
        if data is None:
            return given
        metadata = data.get("user_metadata", given.get("user_metadata"))
        data["user_metadata"] = metadata if isinstance(metadata, dict) else {}
        data["id"] = heads.id_in(data)
        return {**given, "data": data, "version": _word(given.get("version"))}


def _word(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else str(value)


class InteractionEvent(Event, frozen=True):
    """Something happened to an interaction."""

    types: ClassVar[tuple[str, ...]] = ("interaction.*",)
    data: Failure


class InteractionCompleted(InteractionEvent, frozen=True):
    """It ended; its result can be fetched."""

    types: ClassVar[tuple[str, ...]] = ("interaction.completed",)


class InteractionRequiresAction(InteractionEvent, frozen=True):
    """It waits for function results; the calls must be fetched."""

    types: ClassVar[tuple[str, ...]] = ("interaction.requires_action",)


class InteractionFailed(InteractionEvent, frozen=True):
    types: ClassVar[tuple[str, ...]] = ("interaction.failed",)


class InteractionCancelled(InteractionEvent, frozen=True):
    types: ClassVar[tuple[str, ...]] = ("interaction.cancelled",)


class BatchEvent(Event, frozen=True):
    """Something happened to a batch."""

    types: ClassVar[tuple[str, ...]] = ("batch.*",)
    data: Batch


class BatchSucceeded(BatchEvent, frozen=True):
    """Older texts call it batch.completed."""

    types: ClassVar[tuple[str, ...]] = ("batch.succeeded", "batch.completed")


class BatchFailed(BatchEvent, frozen=True):
    types: ClassVar[tuple[str, ...]] = ("batch.failed",)


class BatchExpired(BatchEvent, frozen=True):
    types: ClassVar[tuple[str, ...]] = ("batch.expired",)


class BatchCancelled(BatchEvent, frozen=True):
    types: ClassVar[tuple[str, ...]] = ("batch.cancelled",)


class VideoEvent(Event, frozen=True):
    """Something happened to a video."""

    types: ClassVar[tuple[str, ...]] = ("video.*",)
    data: Video


class VideoGenerated(VideoEvent, frozen=True):
    types: ClassVar[tuple[str, ...]] = ("video.generated",)


class Fetched(Resource, frozen=True):
    """What a worker of ours fetched and where it lies."""

    status: str = ""
    result_url: str = ""
    text: str = ""  # the model's answer, at most 64 KiB of it
    total_tokens: int = 0
    model: str = ""
    summary_url: str = ""  # JSON: tokens by kind and modality, tools, times


class InteractionFetched(Event, frozen=True):
    """Ours: a completed interaction lies in the results store."""

    types: ClassVar[tuple[str, ...]] = ("interaction.fetched",)
    exchange: ClassVar[str] = topology.RESULTS
    data: Fetched


class FetchedBatch(Resource, frozen=True):
    """A batch and what it brought; the counts are of rows."""

    status: str = ""  # succeeded, partly_failed, all_failed, no_output, failed, expired, ...
    model: str = ""
    result_url: str = ""  # rows.jsonl; empty where there are no rows
    summary_url: str = ""
    requested: int | None = None
    ok: int = 0
    failed: int = 0
    missing: int = 0


class BatchFetched(Event, frozen=True):
    """Ours: a batch has ended, and what it brought lies in the results store."""

    types: ClassVar[tuple[str, ...]] = ("batch.fetched",)
    exchange: ClassVar[str] = topology.RESULTS
    data: FetchedBatch


class FetchedRow(Resource, frozen=True):
    """One row of the batch *id*."""

    number: int = 0  # of its line in rows.jsonl, from 1 on
    key: str | None = None
    outcome: str = ""  # ok, failed, empty or malformed
    row: Any = None  # as Gemini sent it; None where it is large, or malformed
    result_url: str = ""


class BatchRow(Event, frozen=True):
    """Ours, with GEMHOOKS_BATCH_ROWS=1: one row of a batch that was fetched."""

    types: ClassVar[tuple[str, ...]] = ("batch.row",)
    exchange: ClassVar[str] = topology.RESULTS
    data: FetchedRow


class FetchedVideo(Resource, frozen=True):
    """A video that lies in the results store; its size is in bytes."""

    result_url: str = ""
    size: int = 0
    content_type: str = ""


class VideoFetched(Event, frozen=True):
    """Ours: a video lies in the results store."""

    types: ClassVar[tuple[str, ...]] = ("video.fetched",)
    exchange: ClassVar[str] = topology.RESULTS
    data: FetchedVideo


class Asked(Resource, frozen=True):
    """An interaction, and who asks for a look at it."""

    by: str = ""


class InteractionWaiting(Event, frozen=True):
    """Ours: look at that interaction again, for it may wait for functions. Proves nothing."""

    types: ClassVar[tuple[str, ...]] = ("interaction.waiting",)
    exchange: ClassVar[str] = topology.RESULTS
    data: Asked

    @property
    def subject(self) -> str:
        """A person may ask again and again, and each time counts."""
        return f"{super().subject}:{self.data.by}"


class CalledFunction(Resource, frozen=True):
    """One call of an interaction (its *id*), and how it ended."""

    call_id: str = ""
    function: str = ""
    outcome: str = ""
    is_error: bool = False
    result: Any = None  # what the model is told; None where it lies at result_url only
    result_url: str = ""


class FunctionCalled(Event, frozen=True):
    """Ours: a function was called, and its result is recorded."""

    types: ClassVar[tuple[str, ...]] = ("function.called",)
    exchange: ClassVar[str] = topology.RESULTS
    data: CalledFunction


class Said(Resource, frozen=True):
    """One message of an interaction, in the format of CX Agent Studio (docs/conversations.md)."""

    interaction_id: str = ""
    previous_interaction_id: str | None = None
    index: int = 0
    count: int = 0  # of the messages of this interaction
    message: dict[str, Any] | None = None  # None where it is large: it lies at result_url
    result_url: str = ""  # the whole conversation


class ConversationMessage(Event, frozen=True):
    """Ours: something was said in an interaction. Nothing of ours acts on it."""

    types: ClassVar[tuple[str, ...]] = ("conversation.message",)
    exchange: ClassVar[str] = topology.RESULTS
    data: Said


KNOWN: tuple[type[Event], ...] = (
    InteractionCompleted,
    InteractionRequiresAction,
    InteractionFailed,
    InteractionCancelled,
    BatchSucceeded,
    BatchFailed,
    BatchExpired,
    BatchCancelled,
    VideoGenerated,
    InteractionFetched,
    BatchFetched,
    BatchRow,
    VideoFetched,
    InteractionWaiting,
    FunctionCalled,
    ConversationMessage,
)
BY_TYPE: dict[str, type[Event]] = {name: event for event in KNOWN for name in event.types}
# What a type that no release knew is read as, by its first word.
FAMILIES: dict[str, type[Event]] = {
    "interaction": InteractionEvent,
    "batch": BatchEvent,
    "video": VideoEvent,
}


def parse(body: bytes) -> Event:
    """Read a whole body; a type that this release doesn't know is read as its family, or as Event.

    Raises Undecodable, with no part of the body in its text.
    """
    try:
        given = jsontext.loads(body)
        if body.count(b"{") + body.count(b"[") > DEEPEST and is_too_deep(given):
            raise Undecodable("the body is nested too deeply")
        event_type = heads.type_in(given) if isinstance(given, dict) else ""
        if event_type and "type" in given:
            given["type"] = event_type
        return _model_of(event_type).model_validate(given)
    except (jsontext.Malformed, RecursionError) as error:
        raise Undecodable("the body is not JSON") from error
    except ValidationError as error:
        raise Undecodable(_what_is_wrong(error)) from error


def _model_of(event_type: str) -> type[Event]:
    return BY_TYPE.get(event_type) or FAMILIES.get(event_type.partition(".")[0], Event)


def _what_is_wrong(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"not a Gemini event: {'.'.join(map(str, found['loc']))}: {found['msg']}"[:200]


def is_too_deep(value: Any) -> bool:
    """Whether no event can hold it. Level by level, so that the check itself needs no stack."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            child
            for each in level
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True
