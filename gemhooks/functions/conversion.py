"""What a function returned, as the API takes it.

==================================================  ===========================================
a function returns                                  the model gets
==================================================  ===========================================
str                                                 the text
dict or other mapping, pydantic model, dataclass    an object
list or tuple of content ({"type": "text", ...})    the list: text, image, audio, document, video
None, bool, int, float, any other list or tuple     {"result": value}
set, frozenset                                      {"result": list}, ordered by its JSON text
datetime, date, time, Decimal, UUID                 the text, ISO 8601 for times
Enum                                                its value as text, else its name
int beyond 64 bits                                  {"result": digits as text}
keys: int, Enum, date, UUID ...                     their text; two that become one are an error
NaN, infinity, bytes, lone surrogates               an error: not serialisable
generators and iterators                            an error, and they are never consumed
exceptions, any other object                        an error: not serialisable
what holds itself, or is deeper than 100            an error: not serialisable
more than *max_result* bytes of JSON                its beginning and MARKER as text, no error
==================================================  ===========================================

The same holds for what stands inside an object or a list, without the {"result": ...} around it.
An oversized result is no error, since the function did its work: a model that reads "failed"
would call it again. The whole of it, up to MAX_WHOLE, comes along to be stored.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gemhooks.functions.jsonable import Converter, Unserialisable
from gemhooks.functions.results import Answer, Outcome, Result
from gemhooks.functions.texts import bounded, explain

MAX_RESULT = 256 * 1024  # bytes of JSON
SMALLEST_RESULT = 1024  # bytes; less has no room for the marker of what was cut
MAX_BODY = 3 * 1024 * 1024  # bytes of JSON of all results of one continuation
MAX_WHOLE = 2 * 1024 * 1024  # bytes of JSON; a longer one is kept no more than told
MARKER = "\n[cut by gemhooks: the result was larger than {} bytes]"
_CONTENT = frozenset({"image", "audio", "document", "video"})


def convert(value: Any, max_result: int = MAX_RESULT) -> Answer:
    """The answer for *value*; never raises, whatever *value* does."""
    converter = Converter(max(MAX_WHOLE, max_result))
    try:
        plain = converter.convert(value)
    except Unserialisable as error:
        return _refused(str(error))
    except BaseException as error:  # a property or an __iter__ of the author's
        return _refused(explain(error, 200))
    if converter.full:
        return Answer(_cut(plain, max_result), Outcome.TOO_LARGE)
    fit = _wrapped(plain)
    whole = _dumps(fit).encode()
    if len(whole) <= max_result:
        return Answer(fit)
    return Answer(_cut(plain, max_result), Outcome.TOO_LARGE, whole)


def fitted(results: Sequence[Result], limit: int = MAX_BODY) -> list[Result]:
    """*results*, the long ones cut where all together are more than *limit* bytes of JSON.

    Gemini refuses a request that is too large, and would refuse it each time.
    """
    if sum(_size(each.result) for each in results) <= limit:
        return list(results)
    share = max(limit // len(results), SMALLEST_RESULT)
    return [
        replace(each, result=_cut(each.result, share)) if _size(each.result) > share else each
        for each in results
    ]


def _refused(why: str) -> Answer:
    text = f"The function ran, but its result is not serialisable: {bounded(why, 300)}"
    return Answer(text, Outcome.UNSERIALISABLE)


def _wrapped(plain: Any) -> Any:
    if isinstance(plain, str | dict) or _is_content(plain):
        return plain
    return {"result": plain}


def _is_content(plain: Any) -> bool:
    return isinstance(plain, list) and bool(plain) and all(_is_part(each) for each in plain)


def _is_part(each: Any) -> bool:
    """True for what Google's client surely sends as content: it refuses a text without text."""
    if not isinstance(each, dict) or not all(isinstance(value, str) for value in each.values()):
        return False
    if each.get("type") == "text":
        return "text" in each
    return each.get("type") in _CONTENT and ("data" in each or "uri" in each)


def _cut(plain: Any, max_result: int) -> str:
    """The beginning of *plain* as text, the marker included in *max_result*."""
    text = plain if isinstance(plain, str) else _dumps(plain)
    marker = MARKER.format(max_result)
    room = max_result - _size(marker)
    text = text[: max(room, 0)]  # a character is a byte at least
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _size(text[:middle]) <= room else (low, middle - 1)
    return text[:low] + marker


def _dumps(plain: Any) -> str:
    return json.dumps(plain, ensure_ascii=False, allow_nan=False)


def _size(plain: Any) -> int:
    return len(_dumps(plain).encode())
