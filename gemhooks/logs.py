"""Logging: one line an event, JSON for machines, no secret in any."""

import logging
import re
import sys
import time
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import orjson
import structlog

from gemhooks.lines import Alarm, GatheredLines, Lines, impatient, on_loop

HIDDEN = "[redacted]"
_SECRETS = (
    (re.compile(r"whsec_[A-Za-z0-9+/=_-]+"), HIDDEN),
    (re.compile(r"AIza[A-Za-z0-9_-]{10,}"), HIDDEN),
    # To the last @: a password may hold one.
    (re.compile(r"([a-z][a-z0-9+.-]*://)[^/\s@]*:\S*@", re.IGNORECASE), rf"\1{HIDDEN}@"),
    (
        re.compile(r"([?&](?:key|sig|[\w-]*(?:token|signature))=)[^&\s'\"]+", re.IGNORECASE),
        rf"\1{HIDDEN}",
    ),
    (
        re.compile(r"(x-goog-api-key['\"]?\s*[:=]\s*['\"]?)[^\s'\",]+", re.IGNORECASE),
        rf"\1{HIDDEN}",
    ),
    (
        re.compile(r"(authorization['\"]?\s*[:=]\s*['\"]?)[^\r\n'\"]+", re.IGNORECASE),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE), rf"\1 {HIDDEN}"),
)
_MARKS = re.compile(
    r"whsec_|AIza|://|authorization|bearer|basic|[?&]|x-goog-api-key", re.IGNORECASE
)
# All that the patterns and names above need, in lower case: a line without them is clean.
_LINE_MARKS = (
    *(b"whsec_", b"aiza", b"://", b"authorization", b"bearer", b"basic"),
    *(b"password", b"secret", b"api_key", b"x-goog-api-key", b"key=", b"sig=", b"token="),
    b"signature=",
)
# A piece of each of them: a line is searched for these in a third of the time.
_PIECES = re.compile(rb"=|//|za|_key|-key|basic|bearer|whsec|word|cret")
_SECRET_NAMES = frozenset({"authorization", "password", "secret", "api_key"})

# What others said must not drive a terminal: no control characters but tab and new line.
PLAIN = dict.fromkeys({*range(32), *range(127, 160)} - {9, 10})

EventDict = MutableMapping[str, Any]

_gathered: list[GatheredLines] = []

# What every line says while it is set. One variable costs a tenth of structlog's one for each name.
about: ContextVar[Mapping[str, str]] = ContextVar("gemhooks_about", default={})  # noqa: B039 - never changed


def redact(text: str) -> str:
    """*text* without what looks like a secret."""
    if not _MARKS.search(text):
        return text
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def _hide(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if value is None or isinstance(value, int | float):
        return value  # most of what is no text: its words would cost more than all the rest
    if isinstance(value, dict):
        return {_hide_in(key): _hidden(key, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_hide(each) for each in value]
    return _hide_in(value)


def _hide_in(value: Any) -> Any:
    """*value* itself, unless the words for it (of an exception, say) hold a secret."""
    words = value if isinstance(value, str) else _in_words(value)
    clean = redact(words)
    return value if clean == words else clean


def _in_words(value: Any) -> str:
    """A class of the user's may fail even at that."""
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _hidden(name: Any, value: Any) -> Any:
    return HIDDEN if str(name).lower() in _SECRET_NAMES else _hide(value)


def redact_values(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Hide secrets in the values of a log line."""
    for name, value in event.items():
        try:
            event[name] = _hidden(name, value)
        except RecursionError:
            event[name] = redact(_in_words(value))
    return event


def plain_values(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """For a terminal; JSON says such characters in others of its own."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = value.translate(PLAIN)
    return event


def configure(
    log_format: str = "auto", level: str = "info", *, gathered: Alarm | None = None
) -> None:
    """Send structlog's and the standard library's lines to stderr in one shape.

    *gathered*, for a service, says by what alarm its lines of JSON are gathered, see
    :mod:`gemhooks.lines`; who ends the process past Python's own end calls :func:`flush`.
    """
    as_json = log_format == "json" or (log_format == "auto" and not sys.stderr.isatty())
    shared = [*_shared(), structlog.processors.format_exc_info]
    structlog.configure(
        processors=[*shared, *_renderers(as_json=as_json)],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=_factory(as_json=as_json, gathered=gathered),
        cache_logger_on_first_use=True,
    )
    _route_stdlib(shared, as_json=as_json)


def _shared() -> list[Any]:
    return [
        add_about,
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        add_timestamp,
    ]


def add_about(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """What the line is about, as the present context knows."""
    for name, value in about.get().items():
        event.setdefault(name, value)
    return event


def add_timestamp(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """In UTC, to the microsecond; a line costs half of what it would with datetime."""
    now = time.time_ns() // 1000
    event["timestamp"] = f"{_second(now // 1_000_000)}.{now % 1_000_000:06}Z"
    return event


@lru_cache(2)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _renderers(*, as_json: bool) -> list[Any]:
    """The redaction comes last: a traceback, which shows no locals, holds the exception's text."""
    if as_json:
        return [render_json]
    return [redact_values, plain_values, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]


def render_json(logger: Any, method: str, event: EventDict) -> bytes:
    """One line, searched as a whole: value by value would cost ten times as much."""
    line = _dumps(event)
    lowered = line.lower()
    if _PIECES.search(lowered) and any(mark in lowered for mark in _LINE_MARKS):
        return _dumps(redact_values(logger, method, event))
    return line


def _factory(*, as_json: bool, gathered: Alarm | None) -> Any:
    if not as_json:
        text = Lines(sys.stderr, "\n")
        return lambda *_: text
    if gathered is None:
        data = Lines(sys.stderr.buffer, b"\n")
        return lambda *_: data
    file = impatient(sys.stderr.buffer) if gathered is on_loop else sys.stderr.buffer
    lines = GatheredLines(file, gathered)
    _gathered.append(lines)
    return lambda *_: lines


def flush() -> None:
    """Write the lines that wait."""
    for lines in _gathered:
        lines.flush()


# A dataclass by its repr, which knows what not to show.
_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS


def _dumps(event: EventDict) -> bytes:
    try:
        return orjson.dumps(event, default=_in_words, option=_OPTIONS)
    except (TypeError, ValueError):  # lone surrogates, numbers beyond 64 bits, no end of nesting
        return b"{%b}" % b",".join(b"%b:%b" % _pair(*each) for each in event.items())


def _pair(name: str, value: Any) -> tuple[bytes, bytes]:
    return orjson.dumps(_escaped(name)), _value(value)


def _value(value: Any) -> bytes:
    """In words where JSON has no form for it, so that the rest of the line is what it is."""
    try:
        return orjson.dumps(value, default=_in_words, option=_OPTIONS)
    except (TypeError, ValueError):
        return orjson.dumps(_escaped(value if isinstance(value, str) else _in_words(value)))


def _escaped(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()


def _render_text(logger: Any, method: str, event: EventDict) -> str:
    return render_json(logger, method, event).decode()


def _route_stdlib(shared: list[Any], *, as_json: bool) -> None:
    """WARNING and above only: pika, httpx and alembic put URLs in their INFO lines."""
    remove = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[remove, *([_render_text] if as_json else _renderers(as_json=False))],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    # It tells each failed connect in several lines of its own; ours is broker_unreachable.
    logging.getLogger("pika").setLevel(logging.CRITICAL)
