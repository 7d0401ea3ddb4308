"""What a model sent as arguments: checked before the function sees any of it."""

import json
import math
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gemhooks.functions.signatures import Signature
from gemhooks.functions.texts import bounded, explain

MAX_DEPTH = 100
MAX_SIZE = 1024 * 1024  # bytes of JSON
LONGEST_MESSAGE = 1000
_LONGEST_PART = 100
_KINDS = {"NoneType": "null", "str": "a string", "list": "a list", "bool": "a boolean"}
_PLAIN = {
    "extra_forbidden": "unexpected argument",
    "missing": "required argument is missing",
    "json_invalid": "not valid JSON",
}


class BadArguments(Exception):
    """The arguments don't fit; the message is for the model."""

    def __init__(self, message: str) -> None:
        super().__init__(bounded(f"Bad arguments: {message}", LONGEST_MESSAGE))


def check(signature: Signature, arguments: Any) -> dict[str, Any]:
    """The keyword arguments for the function; BadArguments where they don't fit.

    Strict as JSON can be: no text becomes a number, no boolean, no 1.5 becomes an integer. What
    JSON has no word for (dates, enums, sets) is read from its JSON form. A function that wants
    more leniency declares it, with a pydantic BeforeValidator on the parameter. Unknown keys are
    refused at the top and in dataclasses; a nested pydantic model says so itself (extra=). A
    function without parameters may be sent null.
    """
    is_nothing = arguments is None and not signature.fields
    text = _as_json({} if is_nothing else arguments)
    try:
        values = signature.model.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise BadArguments(_explain(error)) from None
    except Exception as error:
        # A validator of the author's broke: the function has not run, and that is what counts.
        raise BadArguments(explain(error, 200)) from error
    # What was not sent is left to the function's own defaults.
    return {signature.fields[key]: getattr(values, key) for key in values.model_fields_set}


def _as_json(arguments: Any) -> bytes:
    if not isinstance(arguments, dict):
        kind = type(arguments).__name__
        raise BadArguments(f"they must be a JSON object, not {_KINDS.get(kind, kind)}")
    _check_shape(arguments)
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError):  # a lone surrogate, an integer of 5000 digits
        raise BadArguments("they are not valid JSON") from None
    if len(text) > MAX_SIZE:
        raise BadArguments(f"they are larger than {MAX_SIZE} bytes")
    return text


def _check_shape(arguments: dict[str, Any]) -> None:
    """Refuse what is too deep to be walked, by us or by others; without recursion."""
    level: list[tuple[str, Any]] = list(_members(arguments, ""))
    for _ in range(MAX_DEPTH):
        for top, value in level:
            if isinstance(value, float) and not math.isfinite(value):
                raise BadArguments(f"{_part(top)}: {value} is not a JSON number")
        level = [inner for top, value in level for inner in _members(value, top)]
        if not level:
            return
    raise BadArguments(f"they are nested deeper than {MAX_DEPTH} levels")


def _members(value: Any, top: str) -> list[tuple[str, Any]]:
    """The children of *value*, each with the parameter that it belongs to."""
    if isinstance(value, dict):
        return [(top or str(key), each) for key, each in value.items()]
    return [(top, each) for each in value] if isinstance(value, list) else []


def _explain(error: ValidationError) -> str:
    # Without the input: the model knows it, and it may be large.
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(_line(each) for each in found[:50])


def _line(each: ErrorDetails) -> str:
    where = ".".join(_part(str(part)) for part in each["loc"][:10])
    what = _PLAIN.get(each["type"], bounded(each["msg"], 200))
    return f"{where}: {what}" if where else what


def _part(text: str) -> str:
    return bounded(text, _LONGEST_PART)
