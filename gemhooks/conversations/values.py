"""The scalar values of the format: texts, times, bytes, JSON objects."""

import base64
import binascii
import re
import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

# Google's own parser counts two messages a level and takes a hundred (tried, see the tests).
DEEPEST = 45
MOST_VALUES = 1_000_000  # of one object; a list that holds itself never ends
_BASE64URL = str.maketrans("-_", "+/")
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)


def normal_time(text: str) -> str:
    """An RFC 3339 time as Google writes it: in UTC with Z, and 0, 3, 6 or 9 fractional digits.

    A text, since Python's datetime has no nanoseconds. Raises ValueError.

    >>> normal_time("2026-01-02T03:04:05.1200+02:00")
    '2026-01-02T01:04:05.120Z'
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError("not an RFC 3339 time with at most nine fractional digits")
    date, time, fraction, *offset = found.groups()
    try:
        whole = datetime.fromisoformat(f"{date}T{time}").replace(tzinfo=_zone(*offset))
        whole = whole.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("no such time") from None
    return f"{whole.replace(tzinfo=None).isoformat()}{_fraction(fraction or '')}Z"


def _zone(sign: str | None, hours: str | None, minutes: str | None) -> timezone:
    if sign is None or hours is None or minutes is None:
        return UTC
    if int(minutes) >= 60:  # noqa: PLR2004 - minutes of an hour
        raise ValueError
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-offset if sign == "-" else offset)


def _fraction(digits: str) -> str:
    digits = digits.rstrip("0")
    return "." + digits.ljust(-(-len(digits) // 3) * 3, "0") if digits else ""


def _time_text(value: Any) -> Any:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a time needs a zone")
        return value.isoformat()
    return value


def decoded(value: Any) -> Any:
    """The bytes of a base64 text, standard or url-safe, padded or not; bytes stay bytes."""
    if not isinstance(value, str):
        return value
    text = value.rstrip("=").translate(_BASE64URL)
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("not base64") from None


def encoded(value: bytes) -> str:
    """Standard base64 with padding."""
    return base64.b64encode(value).decode()


def sendable(text: str) -> str:
    """*text*, or ValueError for lone surrogates: no UTF-8 can carry them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("a text with a lone surrogate") from None
    return text


def json_object(given: dict[str, Any]) -> dict[str, Any]:
    """*given*, or ValueError where it is not JSON that Google's Struct can hold.

    Level by level, so that the check itself needs no stack.
    """
    level: list[Any] = [given]
    seen = 0
    for _ in range(DEEPEST + 1):
        level = [each for value in level for each in _members(value)]
        seen += len(level)
        if not level:
            return given
        if seen > MOST_VALUES:
            raise ValueError(f"more than {MOST_VALUES} values")
    raise ValueError(f"nested deeper than {DEEPEST} levels")


def _members(value: Any) -> list[Any]:
    """The children of *value*, which itself is checked."""
    if isinstance(value, dict):
        for key in value:
            sendable(_key(key))
        return list(value.values())
    if isinstance(value, list):
        return value
    if isinstance(value, str):
        sendable(value)
    elif not _is_plain(value):
        raise ValueError(f"a value of type {type(value).__name__} is not JSON")
    return []


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise ValueError("a key that is not a text")  # noqa: TRY004 - pydantic reports ValueError
    return key


def _is_plain(value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return True
    if not isinstance(value, int | float):
        return False
    # An integer of hundreds of digits is no double, and so no number of a Struct.
    if not abs(value) <= sys.float_info.max:
        raise ValueError("a number that a double can't hold")
    return True


Text = Annotated[str, AfterValidator(sendable)]
Time = Annotated[str, BeforeValidator(_time_text), AfterValidator(normal_time)]
Base64 = Annotated[
    bytes, BeforeValidator(decoded), PlainSerializer(encoded, return_type=str, when_used="json")
]
JsonObject = Annotated[dict[str, Any], AfterValidator(json_object)]
