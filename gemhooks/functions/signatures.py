"""A Python signature, read as what a model must send."""

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticUserError

from gemhooks.functions import docstrings, schemas
from gemhooks.functions.context import CallContext

_UNFIT = {
    inspect.Parameter.VAR_POSITIONAL: "takes *",
    inspect.Parameter.VAR_KEYWORD: "takes **",
    inspect.Parameter.POSITIONAL_ONLY: "takes only by position ",
}


@dataclass(frozen=True, slots=True)
class Signature:
    """How to check the arguments, where to put them, and how to describe them."""

    model: type[BaseModel]  # its fields p0, p1 ... can't clash with anything; aliases are names
    fields: dict[str, str]  # field -> parameter
    contexts: tuple[str, ...]  # the parameters that get the CallContext
    description: str
    schema: dict[str, Any]


def read(function: Callable[..., object], name: str) -> Signature:
    """The signature of *function*.

    Raises TypeError, naming the function, where a model could not be told how to call it.
    """
    try:
        return _read(function)
    except (TypeError, ValueError, NameError, AttributeError, PydanticUserError) as error:
        raise TypeError(f"function {name!r} can't be offered to a model: {error}") from error


def _read(function: Callable[..., object]) -> Signature:
    hints = typing.get_type_hints(function, include_extras=True)
    given = inspect.signature(function).parameters.values()
    for each in given:
        _check(each, hints)
    fields = {f"p{n}": p for n, p in enumerate(given) if hints[p.name] is not CallContext}
    model = _model({key: (hints[p.name], _field(p)) for key, p in fields.items()})
    for key, each in fields.items():
        _check_default(each, required=model.model_fields[key].is_required())
    text = docstrings.read(function)
    return Signature(
        model=model,
        fields={key: each.name for key, each in fields.items()},
        contexts=tuple(each.name for each in given if hints[each.name] is CallContext),
        description=text.description,
        schema=_described(schemas.schema_of(model), text.parameters),
    )


def _check(parameter: inspect.Parameter, hints: dict[str, Any]) -> None:
    if parameter.kind in _UNFIT:
        raise TypeError(f"it {_UNFIT[parameter.kind]}{parameter.name}")
    if parameter.name not in hints:
        raise TypeError(f"parameter {parameter.name!r} has no type")


def _check_default(parameter: inspect.Parameter, *, required: bool) -> None:
    # What the model leaves out is left to Python, which knows no default of pydantic's.
    if parameter.default is inspect.Parameter.empty and not required:
        raise TypeError(f"parameter {parameter.name!r} has its default in Field()")


def _field(parameter: inspect.Parameter) -> Any:
    if parameter.default is inspect.Parameter.empty:
        return Field(alias=parameter.name)
    return Field(default=parameter.default, alias=parameter.name)


def _model(fields: dict[str, Any]) -> type[BaseModel]:
    config = ConfigDict(extra="forbid", strict=True)
    model: type[BaseModel] = create_model("Arguments", __config__=config, **fields)
    return model


def _described(schema: dict[str, Any], parameters: dict[str, str]) -> dict[str, Any]:
    """*schema* with the words of the docstring where the annotation has none of its own."""
    for name, text in parameters.items():
        if text and name in schema["properties"]:
            schema["properties"][name].setdefault("description", text)
    return schema
