"""Both of google-genai's error trees, and its transport's, become ours by one rule."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from gemhooks.errors import AnswerLost, GemhooksError, Gone, NotYet, Refused, Retry

LONGEST_WAIT = 3600.0  # seconds; a server may not put us to sleep for longer
LONGEST_TEXT = 300  # characters of a server's text that go into an error
OK, TOO_MANY, SERVER_ERROR = 200, 429, 500
TIMEOUTS = (408, 504)  # a gateway gave up; what is behind it may have gone on
NOT_FOUND, GONE = 404, 410
BAD_REQUEST, UNAUTHENTICATED, FORBIDDEN = 400, 401, 403
KEY_REFUSED = (UNAUTHENTICATED, FORBIDDEN)
KEY_INVALID = "API_KEY_INVALID"  # for an expired key too
MALFORMED = "malformed answer"
DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)s")  # in JSON, as in "34.07s"
NEVER_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout")  # httpx's: no connection was had
TRANSPORTS = (
    "google",
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
    "urllib3",
)  # packages of a call's errors


Asked = Callable[[int | None], None]  # hears of each request: the status, None without an answer


def unheard(_status: int | None) -> None:
    """Nobody counts."""


def meaning(status: int, body: object) -> int:
    """What an answer counts as: its status, but 401 for the 400 with which Gemini refuses a key."""
    reasons = [each.get("reason") for each in _details(body)] if status == BAD_REQUEST else []
    return UNAUTHENTICATED if KEY_INVALID in reasons else status


def meant_by(error: Exception) -> int | None:
    """The :func:`meaning` of one of Google's errors; None where it is about something else."""
    status = _status_of(error)
    return None if status is None else meaning(status, _body_of(error))


def _status_of(error: Exception) -> int | None:
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    return status if isinstance(status, int) else None


def _body_of(error: Exception) -> object:
    """Either tree has it under a name of its own."""
    return getattr(error, "body", None) or getattr(error, "details", None)


def ours(error: Exception, *, key: str) -> GemhooksError | None:
    """What *error* means to us; None for one that is a bug of ours and must be seen."""
    status = _status_of(error)
    if status is not None:
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
        return of_status(status, headers, _body_of(error), key=key)
    if isinstance(error, GemhooksError):
        return error
    if isinstance(error, ArithmeticError):  # the client's own, over "Retry-After: inf" (tried)
        return AnswerLost(MALFORMED)
    if isinstance(error, TypeError | ValueError):
        return Refused(f"google-genai refuses to send the request ({type(error).__name__})")
    if isinstance(error, OSError) or type(error).__module__.split(".")[0] in TRANSPORTS:
        return _unreached(error)
    return None


def _unreached(error: Exception) -> Retry:
    reason = f"Gemini cannot be reached ({type(error).__name__})"
    # Google's own error hides the transport's behind it.
    sent = not {type(each).__name__ for each in (error, error.__cause__)} & {*NEVER_SENT}
    return AnswerLost(reason) if sent else Retry(reason)


def of_status(status: int, headers: Mapping[str, str], body: object, *, key: str) -> GemhooksError:
    """What an answer of *status* means; *body* is parsed JSON or anything else."""
    if status == OK:
        return AnswerLost(MALFORMED)
    if status == NOT_FOUND:
        return NotYet("not_found")
    if status == GONE:
        return Gone("Gemini says that it is gone (410)")
    if status in (*TIMEOUTS, TOO_MANY) or status >= SERVER_ERROR:
        kind = AnswerLost if status in TIMEOUTS else Retry
        return kind(f"Gemini answered {status}", at_least=_asked_wait(headers, body))
    meant = meaning(status, body)
    if meant in KEY_REFUSED:
        return Refused(f"Gemini refuses our API key for this ({status})", status=meant)
    return Refused(f"Gemini answered {status}: {_text(body, key=key)}", status=status)


def _asked_wait(headers: Mapping[str, str], body: object) -> float:
    """Seconds that the server wants to be left alone; Gemini's quota says so in the body only."""
    return min(max((_retry_after(headers), *_retry_delays(body))), LONGEST_WAIT)


def _retry_after(headers: Mapping[str, str]) -> float:
    seconds = _seconds(str(headers.get("retry-after", "")))
    return 0.0 if seconds is None or not seconds >= 0 else seconds


def _retry_delays(body: object) -> Iterator[float]:
    for each in _details(body):
        if said := DURATION.fullmatch(str(each.get("retryDelay"))):
            yield float(said[1])


def _details(body: object) -> Iterator[dict[str, Any]]:
    """What an error says to machines; nothing where it has another shape."""
    inner = body.get("error") if isinstance(body, dict) else None
    given = inner.get("details") if isinstance(inner, dict) else None
    return (each for each in (given if isinstance(given, list) else ()) if isinstance(each, dict))


def _seconds(text: str) -> float | None:
    """A Retry-After in either of HTTP's two forms."""
    with suppress(ValueError):
        return float(text)
    with suppress(ValueError, TypeError):
        return (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    return None


def _text(body: object, *, key: str) -> str:
    """What the server says, bounded, on one line, and without the key should it echo it."""
    inner = body.get("error") if isinstance(body, dict) else None
    message = inner.get("message") if isinstance(inner, dict) else None
    text = message if isinstance(message, str) else str(body or "")
    return " ".join(text.replace(key, "[key]").split())[:LONGEST_TEXT]
