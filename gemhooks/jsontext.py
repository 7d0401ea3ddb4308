"""JSON in which a large integer stays the integer it is: ids and amounts must not be rounded."""

import codecs
import json
from typing import Any

import orjson

# An integer beyond 64 bits has no fewer digits. Two passes in C: a regular expression takes four
# times as long, and more than the parser itself.
_LONG = b"0" * 19
_ALL_ZERO = bytes.maketrans(b"123456789", b"0" * 9)

Malformed = orjson.JSONDecodeError  # a ValueError; also for lone surrogates and endless nesting


def loads(text: bytes | str) -> Any:
    """Parse *text*, which may begin with a byte order mark. Raises Malformed.

    orjson would make a float of an integer beyond 64 bits.
    """
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    raw = raw.removeprefix(codecs.BOM_UTF8)
    parsed = orjson.loads(raw)
    return _exactly(raw) if _LONG in raw.translate(_ALL_ZERO) else parsed


def _exactly(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except RecursionError:  # a few levels earlier than orjson
        raise Malformed("nested too deeply", "", 0) from None


def dumps(value: Any) -> bytes:
    """*value* as UTF-8. Raises TypeError or ValueError for what JSON has no form for."""
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer beyond 64 bits, most likely
        return _at_length(value)


def _at_length(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
