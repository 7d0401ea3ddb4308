"""How every part of the format is read and written.

Reading takes what the format's owner may send tomorrow: unknown fields are kept and written again.
What is made in Python is held to what is known today: an unknown name is an error.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import from_json

from gemhooks.errors import Undecodable


class Wire(BaseModel):
    """A part of a conversation: immutable, snake_case in Python, camelCase on the wire."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        hide_input_in_errors=True,  # what people say is in no log
    )

    @classmethod
    def from_wire(cls, given: bytes | str | Mapping[str, Any]) -> Self:
        """Read JSON, or what was parsed from it; names in camelCase or, as ProtoJSON has it, snake.

        Raises Undecodable, with no part of *given* in its text but names of fields.
        """
        try:
            return cls.model_validate(_parsed(given), extra="allow")
        except ValidationError as error:
            raise Undecodable(f"not a {cls.__name__}: {_first(error)}") from None
        except (ValueError, RecursionError):  # not the cause: its text shows the input
            raise Undecodable(f"not a {cls.__name__}: not JSON") from None

    def to_wire(self) -> dict[str, Any]:
        """The JSON object; what is not set is not in it."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def to_json(self) -> bytes:
        """The same as UTF-8."""
        return json.dumps(self.to_wire(), ensure_ascii=False, allow_nan=False).encode()

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Only what is set: a chunk has ten members and one value."""
        return ((name, value) for name, value in super().__repr_args__() if value is not None)

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if twice := sorted(set(self.model_extra or ()) & set(type(self).model_fields)):
            raise ValueError(f"{twice[0]} is given under both of its names")
        return self

    @model_serializer(mode="wrap")
    def _with_unknown_fields(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {**handler(self), **(self.model_extra or {})}


def at_most_one(resource: Wire, names: tuple[str, ...]) -> str | None:
    """Which of *names* is set, or ValueError where two are."""
    given = [name for name in names if getattr(resource, name) is not None]
    if len(given) > 1:
        raise ValueError(f"only one of {' and '.join(map(to_camel, given))} may be set")
    return given[0] if given else None


def _parsed(given: bytes | str | Mapping[str, Any]) -> Any:
    return from_json(given, allow_inf_nan=False) if isinstance(given, bytes | str) else given


def _first(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(map(str, found["loc"]))
    what = found["msg"].removeprefix("Value error, ")
    return (f"{where}: {what}" if where else what)[:300]
