"""A row with a vector: what it says beside its numbers, of which no objects are made."""

from typing import Any

import msgspec
import orjson

from gemhooks.batches.rows import LONG

NULL = b"null"
_NOTHING = msgspec.Raw(NULL)


class _Answer(msgspec.Struct):
    embedding: msgspec.Raw = _NOTHING
    usageMetadata: msgspec.Raw = _NOTHING  # noqa: N815 - Gemini's
    tokenCount: msgspec.Raw = _NOTHING  # noqa: N815 - Gemini's


class _Line(msgspec.Struct):
    key: str
    response: _Answer
    error: msgspec.Raw = _NOTHING


_decode = msgspec.json.Decoder(_Line).decode


def read(line: bytes) -> dict[str, Any] | None:
    """The row, its numbers replaced; None for what has to be read as a whole.

    That every number is one is checked, not that it is small enough for a float.
    """
    if not line.isascii():  # msgspec does not check texts that it skips
        return None
    try:
        row = _decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    answer = row.response
    embedding = memoryview(answer.embedding)
    is_vector = embedding.nbytes >= LONG and bytes(embedding[:1]) == b"{"
    if not is_vector or bytes(row.error) != NULL:
        return None
    return {
        "key": row.key,
        "response": {
            "embedding": True,
            "usageMetadata": _value(answer.usageMetadata),
            "tokenCount": _value(answer.tokenCount),
        },
    }


def _value(raw: msgspec.Raw) -> Any:
    return orjson.loads(memoryview(raw))
