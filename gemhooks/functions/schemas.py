"""JSON schemas as the API takes them: in one piece, without decoration."""

import json
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

_VERBATIM = frozenset({"default", "enum", "examples", "required"})
_MAPS = frozenset({"properties", "patternProperties"})  # their keys are names, not keywords
# A discriminator only repeats, as references, what anyOf says.
_DROPPED = frozenset({"$defs", "title", "discriminator"})


class _Quiet(GenerateJsonSchema):
    """Leaves out, without a warning, a default that JSON can't say: the function has it."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Say nothing."""


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of *model* with every definition in its place.

    Raises ValueError where a definition holds itself: no finite schema can say that.
    """
    schema = model.model_json_schema(by_alias=True, schema_generator=_Quiet)
    inlined: dict[str, Any] = _inline(schema, schema.get("$defs", {}), ())
    inlined.setdefault("properties", {})
    return inlined


def _inline(node: Any, definitions: dict[str, Any], path: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_inline(each, definitions, path) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _resolve(node, definitions, path)
    kept = {key: value for key, value in node.items() if _is_kept(key, value)}
    if "const" in kept:
        kept["enum"] = [kept.pop("const")]  # the API documents enum only
    return {key: _member(key, value, definitions, path) for key, value in kept.items()}


def _is_kept(key: str, value: Any) -> bool:
    return key not in _DROPPED and not (key == "default" and not _is_json(value))


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _member(key: str, value: Any, definitions: dict[str, Any], path: tuple[str, ...]) -> Any:
    if key in _VERBATIM:
        return value
    if key in _MAPS:
        return {name: _inline(each, definitions, path) for name, each in value.items()}
    return _inline(value, definitions, path)


def _resolve(node: dict[str, Any], definitions: dict[str, Any], path: tuple[str, ...]) -> Any:
    name = node["$ref"].removeprefix("#/$defs/")
    if name in path:
        raise ValueError(f"the type {name} contains itself")
    beside = {key: value for key, value in node.items() if key != "$ref"}
    return _inline(definitions[name] | beside, definitions, (*path, name))
