"""The webhooks that should exist, as a file declares them (TOML or YAML).

[[webhooks]]
uri = "https://your-host/webhooks/gemini"
events = ["interaction.completed", "batch.succeeded"]   # all seven when left out
save_to = "/run/gemhooks/secrets/"                      # where a new secret goes
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ValidationError

from gemhooks.errors import Misconfigured
from gemhooks.gemini.webhooks import Webhook, webhook_id
from gemhooks.webhooks import wishes

LARGEST = 1 << 20  # bytes of a file


def _names(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _id(text: str) -> str:
    return webhook_id(text) if text else ""


class Desired(BaseModel, frozen=True, extra="forbid"):
    """One webhook as it should be; *id* is needed only where the uri does not tell which."""

    uri: Annotated[str, AfterValidator(wishes.check_uri)]
    events: Annotated[
        tuple[str, ...], BeforeValidator(_names), AfterValidator(wishes.check_events)
    ] = wishes.SUBSCRIBABLE
    enabled: bool = True
    name: str = ""
    id: Annotated[str, AfterValidator(_id)] = ""
    save_to: str = ""

    @property
    def label(self) -> str:
        return self.name or self.id or self.uri


class _File(BaseModel, frozen=True, extra="forbid"):
    webhooks: tuple[Desired, ...]


def read(path: Path) -> tuple[Desired, ...]:
    """What the file at *path* declares; Misconfigured, in one sentence, where it is wrong."""
    try:
        text = path.read_bytes()[:LARGEST].decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path} can't be read: {type(error).__name__}.") from None
    found = _parsed(path, text)
    try:
        return _File.model_validate(found).webhooks
    except Misconfigured as error:
        raise Misconfigured(f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise Misconfigured(f"{path}: {where}: {first['msg'].lower()}.") from None


def _parsed(path: Path, text: str) -> Any:
    if path.suffix in (".yaml", ".yml"):
        return _yaml(path, text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Misconfigured(f"{path} is not TOML: {error}.") from None


def _yaml(path: Path, text: str) -> Any:
    try:
        import yaml  # noqa: PLC0415 - only for those who write YAML
    except ImportError:
        raise Misconfigured(f"{path}: pip install pyyaml, or write it as TOML.") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())[:200]
        raise Misconfigured(f"{path} is not YAML: {problem}.") from None


def find(desired: Desired, listed: Sequence[Webhook]) -> Webhook | None:
    """Which of *listed* is meant: by id, else by uri, else by name; None where none is.

    Raises Misconfigured where several could be, or where the id is unknown.
    """
    if desired.id:
        found = [each for each in listed if each.id == desired.id]
        if not found:
            raise Misconfigured(f"Gemini knows no webhook {desired.id}.")
        return found[0]
    found = [each for each in listed if each.uri == desired.uri] or [
        each for each in listed if desired.name and each.name == desired.name
    ]
    if len(found) > 1:
        ids = ", ".join(each.id for each in found)
        raise Misconfigured(f"several webhooks could be {desired.label} ({ids}): say which id.")
    return found[0] if found else None
