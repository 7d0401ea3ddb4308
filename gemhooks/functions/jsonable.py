"""Any Python value as plain JSON values, never more of them than asked for."""

import dataclasses
import datetime as dt
import json
import math
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from gemhooks.functions.texts import is_sendable

MAX_DEPTH = 100
_INT64 = 2**63
_TIMES = (dt.datetime, dt.date, dt.time)
_TEXTS = (Decimal, UUID)


class Unserialisable(Exception):
    """The value has no JSON form; the message says what is in the way."""


class Converter:
    """Converts one value; stops, :attr:`full`, once more than *room* bytes were seen.

    The room is what bounds a million rows, and a small list that holds itself twice at each of
    thirty levels: neither is ever built in full.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._path: list[int] = []  # ids of the containers around the present value
        self.full = False

    def convert(self, value: Any) -> Any:
        """*value* as dict, list, str, int, float, bool and None; Unserialisable if it can't."""
        plain = _simplified(value)
        if plain is None or isinstance(plain, bool):
            return self._spent(plain, 4)
        if isinstance(plain, str):
            return self._text(plain)
        if isinstance(plain, int):
            return self._integer(plain)
        if isinstance(plain, float):
            return self._float(plain)
        return self._container(plain, id(value))

    def _spent(self, value: Any, size: int) -> Any:
        self._room -= size
        self.full = self.full or self._room < 0
        return value

    def _text(self, value: str) -> str:
        text = str.__str__(value)  # a subclass may print itself otherwise
        room = max(self._room, 0)
        self._spent(None, len(text) + 2)
        text = text[:room]
        if not is_sendable(text):
            raise Unserialisable("a text with a lone surrogate")
        return text

    def _integer(self, value: int) -> int | str:
        number = int(value)
        if -_INT64 <= number < _INT64:
            return int(self._spent(number, 1))
        if number.bit_length() > 8 * 1024:  # Python itself refuses to print much more
            raise Unserialisable("an integer of thousands of digits")
        return self._text(str(number))

    def _float(self, value: float) -> float:
        if not math.isfinite(value):
            raise Unserialisable(f"{float(value)} is not a JSON number")
        return float(self._spent(float(value), 3))

    def _container(self, value: Any, identity: int) -> Any:
        if identity in self._path:
            raise Unserialisable("it contains itself")
        if len(self._path) >= MAX_DEPTH:
            raise Unserialisable(f"it is nested deeper than {MAX_DEPTH} levels")
        self._path.append(identity)
        self._spent(None, 2)
        try:
            return self._members(value)
        finally:
            self._path.pop()

    def _members(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return self._object(value)
        if isinstance(value, list | tuple):
            return self._list(value)
        if isinstance(value, AbstractSet):
            return sorted(self._list(value), key=json.dumps)
        raise Unserialisable(f"a value of type {type(value).__name__}")

    def _object(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, each in value.items():
            if self.full:
                break
            name = self._text(_key(key))
            if name in found and not self.full:
                raise Unserialisable(f"two keys that are both {name[:50]!r} as text")
            found[name] = self.convert(each)
        return found

    def _list(self, value: Iterable[Any]) -> list[Any]:
        found: list[Any] = []
        for each in value:
            if self.full:
                break
            found.append(self.convert(each))
        return found


def _simplified(value: Any) -> Any:
    """One step towards JSON for what is not JSON's own."""
    if isinstance(value, Enum):
        return _enum_text(value)
    if isinstance(value, _TIMES):
        return value.isoformat()
    if isinstance(value, _TEXTS):
        return str(value)
    if isinstance(value, BaseModel):
        # Not mode="json": that would turn NaN into null and bytes into text, unsaid.
        return value.model_dump(mode="python", warnings=False)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    return value


def _enum_text(value: Enum) -> str:
    inner = value.value
    return str(inner) if isinstance(inner, str | int | float) else value.name


def _key(key: Any) -> str:
    if isinstance(key, Enum | dt.datetime | dt.date | dt.time | Decimal | UUID):
        key = _simplified(key)
    if isinstance(key, str):
        return key
    if isinstance(key, int) and not isinstance(key, bool):
        return str(int(key))
    raise Unserialisable(f"a key of type {type(key).__name__}")
