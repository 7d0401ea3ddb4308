"""A batch job as Gemini tells of it: one view of every variant that is documented or was seen.

Source: the Batch API's guide and reference. The state has either of two prefixes and stands at
either of two levels; the results are named at up to four places.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gemhooks.heads import bare_id

Json = dict[str, Any]

SUCCEEDED, PARTLY = "succeeded", "partially_succeeded"
ENDED = (SUCCEEDED, PARTLY, "failed", "cancelled", "expired")
PREFIXES = ("BATCH_STATE_", "JOB_STATE_")
OUTPUTS = ("output", "response", "dest")
FILE_NAMES = ("responsesFile", "fileName", "responses_file", "file_name")
INLINED = (
    "inlinedResponses",
    "inlinedEmbedContentResponses",
    "inlined_responses",
    "inlined_embed_content_responses",
)


@dataclass(frozen=True)
class Batch:
    """*state* is lower case and without prefix; empty where Gemini tells none."""

    id: str
    state: str
    model: str = ""
    display_name: str = ""
    requested: int | None = None  # rows that were asked for
    output_file: str = ""
    inlined: tuple[Json, ...] | None = field(default=None, repr=False)
    is_done: bool = False  # by the operation's own word
    error_code: str = ""
    error_message: str = ""
    created: str = ""
    ended: str = ""

    @property
    def has_ended(self) -> bool:
        """No other state will follow; of a state that nobody knows only ``done`` can say so."""
        return self.is_done or self.state in ENDED


def read(operation: Json) -> Batch:
    """Read an operation as GET gives it; what is null, absent or odd counts as not told."""
    metadata = _object(operation.get("metadata"))
    outputs = list(_outputs(operation, metadata))
    error = _object(operation.get("error")) or _object(metadata.get("error"))
    return Batch(
        id=bare_id(_word(operation.get("name")) or _word(metadata.get("name"))),
        state=_state(_word(metadata.get("state")) or _word(operation.get("state"))),
        model=_word(metadata.get("model")).removeprefix("models/"),
        display_name=_word(metadata.get("displayName")),
        requested=_count(_object(metadata.get("batchStats")).get("requestCount")),
        output_file=next(filter(None, map(_file, outputs)), ""),
        inlined=next((rows for rows in map(_inlined, outputs) if rows is not None), None),
        is_done=operation.get("done") is True,
        error_code="" if error.get("code") is None else str(error["code"])[:100],
        error_message=_word(error.get("message")),
        created=_word(metadata.get("createTime")),
        ended=_word(metadata.get("endTime")),
    )


def _state(text: str) -> str:
    for prefix in PREFIXES:
        text = text.removeprefix(prefix)
    return text.lower()


def _outputs(operation: Json, metadata: Json) -> Iterator[Json]:
    for place in (metadata, operation):
        for name in OUTPUTS:
            if found := _object(place.get(name)):
                yield found
                yield from (_object(found.get(inner)) for inner in OUTPUTS)


def _file(output: Json) -> str:
    return next(filter(None, (_word(output.get(name)) for name in FILE_NAMES)), "")


def _inlined(output: Json) -> tuple[Json, ...] | None:
    """The rows, which lie in a list, or in a list in an object of the same name."""
    for name in INLINED:
        found = output.get(name)
        while isinstance(found, dict):
            found = next((found[inner] for inner in INLINED if inner in found), None)
        if isinstance(found, list):
            return tuple(each if isinstance(each, dict) else {"odd": each} for each in found)
    return None


def _count(value: Any) -> int | None:
    """JSON writes int64 as a string."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value[:18])
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _word(value: Any) -> str:
    return value[:1000] if isinstance(value, str) else ""


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
