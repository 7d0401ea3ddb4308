"""How people write the values of settings, and what is meant by them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args
from urllib.parse import SplitResult, urlsplit

from msgspec import Meta, ValidationError, convert

LONGEST = 366 * 86400.0  # seconds of any wait
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SWITCHES = {"1": True, "true": True, "yes": True, "on": True, "t": True, "y": True}
SWITCHES |= {"0": False, "false": False, "no": False, "off": False, "f": False, "n": False}
_TIME = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*([smhd]?)\s*")


class SecretText:
    """A text that is not shown by accident; false where it is empty."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def get_secret_value(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretText) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "SecretText('********')" if self else "SecretText('')"


def seconds(text: str) -> float:
    """``"2m"`` is 120.0; plain numbers are seconds. ValueError for what is no time."""
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no time such as 30s, 2m or 1h")
    return float(found[1]) * UNITS[found[2] or "s"]


def schedule(text: str) -> tuple[float, ...]:
    """``"5s 1m"`` is (5.0, 60.0); ValueError for what is no list of waits, TypeError for no str."""
    if not isinstance(text, str):
        raise TypeError(f"waits are written as '5s 1m 10m', not as {text!r}")
    waits = words(text)
    if not waits or not all(map(_TIME.fullmatch, waits)):
        raise ValueError(f"{text!r} is no list of waits such as '5s 1m 10m'")
    return tuple(map(seconds, waits))


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None


def words(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def one_of(*choices: str) -> Callable[[str], str]:
    """Small letters or capitals."""

    def choose(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"{text!r} is none of {', '.join(choices)}")
        return text.lower()

    return choose


def _switch(text: str) -> bool:
    if text.lower() not in SWITCHES:
        raise ValueError(f"{text!r} is neither 1 nor 0")
    return SWITCHES[text.lower()]


def _http(url: str) -> str:
    if not (urlsplit(url).scheme in ("http", "https") and urlsplit(url).hostname):
        raise ValueError("it must begin with https:// or http://")
    return url


def _callable_back(text: str) -> tuple[str, ...]:
    uris = words(text)
    for uri in uris:
        parts = urlsplit(uri)
        if not parts.hostname or (parts.scheme != "https" and not _is_loopback(parts)):
            raise ValueError("each must be an https:// URL; http:// is for this machine only")
    return uris


def _is_loopback(parts: SplitResult) -> bool:
    return parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")


def by(reader: Callable[[str], Any], **bounds: Any) -> Meta:
    """Written as *reader* reads it, and within these bounds, which are msgspec's."""
    return Meta(extra={"reader": reader}, **bounds)


Switch = Annotated[bool, by(_switch)]
Hidden = Annotated[SecretText, by(SecretText)]
Folder = Annotated[Path | None, by(Path)]
Port = Annotated[int, by(number, ge=0, le=65535)]
Wait = Annotated[float, by(seconds, ge=0, le=LONGEST)]
SomeTime = Annotated[float, by(seconds, gt=0, le=LONGEST)]
Schedule = Annotated[
    tuple[Annotated[float, Meta(ge=0, le=LONGEST)], ...], by(schedule, min_length=1)
]
Words = Annotated[tuple[str, ...], by(words)]
BaseUrl = Annotated[str | None, by(_http)]
Uris = Annotated[tuple[str, ...], by(_callable_back)]


def reader_of(kind: Any) -> Callable[[str], Any]:
    """By which a value of *kind* is read; as it stands where none was named."""
    named = (each.extra for each in get_args(kind) if isinstance(each, Meta))
    return next((extra["reader"] for extra in named if extra), str)


def read(kind: Any, text: str) -> Any:
    """What *text* means as a value of *kind*; ValueError, in words, for what is none."""
    try:
        return convert(reader_of(kind)(text), kind, strict=False)
    except ValidationError as error:
        sentence = str(error).partition(" - at ")[0]
        raise ValueError(sentence[0].lower() + sentence[1:]) from None
