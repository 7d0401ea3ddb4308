"""One row of a batch's results: whose answer it is, and whether it is one.

Source: the Batch API's guide. A line has ``key`` and ``response`` or ``error``; inlined rows have
the key in their ``metadata``; a line may also be a bare response or a bare status.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from gemhooks import jsontext

Json = dict[str, Any]

RESPONSES = ("candidates", "embedding", "embeddings", "promptFeedback", "usageMetadata")
LONG = 1024  # bytes; where a vector's row has more, it is not read as a whole
VECTOR = b'"embedding"'
UNSPECIFIED = "unspecified"
WORDLESS = {"text", "thought", "thoughtSignature", "thought_signature"}  # a part with these alone
# usageMetadata's fields by what the tokens were spent on.
TOKENS = {
    "input": ("promptTokenCount", "promptTokensDetails"),
    "output": ("candidatesTokenCount", "candidatesTokensDetails"),
    "thought": ("thoughtsTokenCount", ""),
    "tool_use": ("toolUsePromptTokenCount", "toolUsePromptTokensDetails"),
    "cached": ("cachedContentTokenCount", "cacheTokensDetails"),
}


class Outcome(StrEnum):
    OK = "ok"
    FAILED = "failed"  # the row has an error
    EMPTY = "empty"  # no error, and nothing to use either
    MALFORMED = "malformed"  # no JSON object


@dataclass(frozen=True, slots=True)
class Row:
    """*key* is None for a row that does not say whose answer it is."""

    outcome: Outcome
    key: str | None = None
    code: int | str | None = None  # of the error: google.rpc.Code
    tokens: tuple[tuple[str, str, int], ...] = ()  # kind, modality, count
    reason: str = ""  # of an empty row: Gemini's finishReason or blockReason


MALFORMED = Row(Outcome.MALFORMED)


def read_row(line: bytes) -> Row:
    """Read one line of a result file, whatever is in it."""
    if len(line) > LONG and VECTOR in line[:LONG]:
        from gemhooks.batches import vectors  # noqa: PLC0415 - most workers never see one

        if vector := vectors.read(line):
            return row_of(vector)
    try:
        given = orjson.loads(line)
        if isinstance(given, dict) and isinstance(_raw_key(given), float):
            given = jsontext.loads(line)  # a large integer, most likely: it was rounded
    except jsontext.Malformed:
        return MALFORMED
    return row_of(given) if isinstance(given, dict) else MALFORMED


def row_of(given: Json) -> Row:
    """Read one row that is parsed already."""
    key = _key(given)
    if error := _error(given):
        code = error.get("code") if isinstance(error, dict) else None
        return Row(Outcome.FAILED, key, code if isinstance(code, int | str) else None)
    response = given.get("response")
    if response is None and any(name in given for name in RESPONSES):
        response = given
    return _answered(key, response) if isinstance(response, dict) else Row(Outcome.EMPTY, key)


def _answered(key: str | None, response: Json) -> Row:
    """A row without an error; what says nothing has cost its tokens all the same."""
    tokens = tuple(_tokens(response))
    if _has_content(response):
        return Row(Outcome.OK, key, tokens=tokens)
    return Row(Outcome.EMPTY, key, tokens=tokens, reason=_reason(response))


def _key(given: Json) -> str | None:
    """The key, or the one in the metadata; a number by its JSON text."""
    key = _raw_key(given)
    if isinstance(key, int | float) and not isinstance(key, bool):
        key = jsontext.dumps(key).decode()
    return key if isinstance(key, str) and key else None


def _raw_key(given: Json) -> Any:
    metadata = given.get("metadata")
    key = given.get("key")
    return metadata.get("key") if key is None and isinstance(metadata, dict) else key


def _error(given: Json) -> Any:
    """Wherever it stands; nothing where there is none."""
    response, status = given.get("response"), given.get("status")
    inner = response.get("error") if isinstance(response, dict) else None
    told = status if isinstance(status, dict) and status.get("code") else None
    return given.get("error") or inner or told or _bare_status(given)


def _bare_status(given: Json) -> Json | None:
    is_status = "code" in given and "message" in given and "response" not in given
    return given if is_status else None


def _has_content(response: Json) -> bool:
    """An answer, or a vector; what was blocked, or cut before its first word, has neither."""
    vectors = [response.get("embedding"), *_list(response.get("embeddings"))]
    if any(map(_has_numbers, vectors)):
        return True
    return any(map(_has_parts, _list(response.get("candidates"))))


def _has_numbers(vector: Any) -> bool:
    is_known = isinstance(vector, dict) and "values" in vector
    return bool(vector["values"] if is_known else vector)


def _has_parts(candidate: Any) -> bool:
    content = candidate.get("content") if isinstance(candidate, dict) else None
    return isinstance(content, dict) and any(map(_says, _list(content.get("parts"))))


def _says(part: Any) -> bool:
    """Anything but a thought, which is no answer, or a text without a word."""
    if not isinstance(part, dict) or part.get("thought") is True:
        return False
    text = part.get("text")
    has_words = isinstance(text, str) and bool(text.strip())
    return has_words or not part.keys() <= WORDLESS


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _reason(response: Json) -> str:
    """Why there is no answer, in Gemini's word; empty where it says none."""
    candidates = response.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    told = ((first, "finishReason"), (response.get("promptFeedback"), "blockReason"))
    for where, name in told:
        reason = where.get(name) if isinstance(where, dict) else None
        if isinstance(reason, str) and reason.isascii() and reason.isidentifier():
            return reason
    return ""


def _tokens(response: Json) -> Iterator[tuple[str, str, int]]:
    usage = response.get("usageMetadata")
    if isinstance(usage, dict):
        for kind, (total, details) in TOKENS.items():
            yield from _of_kind(kind, usage.get(total), usage.get(details))
    elif count := _count(response.get("tokenCount")):  # of an embedding
        yield "input", UNSPECIFIED, count


def _of_kind(kind: str, total: Any, details: Any) -> Iterator[tuple[str, str, int]]:
    told = 0
    for each in details if isinstance(details, list) else ():
        if isinstance(each, dict) and (count := _count(each.get("tokenCount"))):
            told += count
            yield kind, str(each.get("modality", UNSPECIFIED)).lower()[:40], count
    if (rest := _count(total) - told) > 0:
        yield kind, UNSPECIFIED, rest


def _count(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[:18])
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
