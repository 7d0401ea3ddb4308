"""The Gemini API as we use it: the only file that imports google.genai.

The client takes a second to import and is therefore built at the first call. Its two error trees
become ours by one rule, see :func:`_ours`.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Lock
from typing import Any
from urllib.parse import quote

import orjson

from gemhooks.errors import GemhooksError, Gone, Misconfigured, NotYet, Refused, Retry

LONGEST_WAIT = 3600.0  # seconds; a server may not put us to sleep for longer
LONGEST_TEXT = 300  # characters of a server's text that go into an error
OK, REQUEST_TIMEOUT, TOO_MANY, SERVER_ERROR = 200, 408, 429, 500
NOT_FOUND, GONE, KEY_REFUSED = 404, 410, (401, 403)
MALFORMED = "malformed answer"
TRANSPORTS = ("google", "httpx", "httpx2", "httpcore", "httpcore2")  # packages of a call's errors


@dataclass(frozen=True, slots=True)
class FetchedInteraction:
    """An interaction: the bytes as Gemini sent them, and the same parsed."""

    id: str
    raw: bytes = field(repr=False)
    parsed: dict[str, Any] = field(repr=False)


class Gemini:
    """One project's access to the Gemini API. Safe to share between threads."""

    def __init__(self, api_key: str, *, base_url: str | None = None, timeout: float = 30.0) -> None:
        self._key = _usable(api_key)
        self._base_url = base_url or None
        self._timeout = timeout
        self._lock = Lock()
        self._built: Any = None

    def interaction(self, interaction_id: str) -> FetchedInteraction:
        """Fetch an interaction whole.

        Raises NotYet("not_found") for a 404, Retry where another attempt may help, else Refused.
        """
        segment = _segment(interaction_id)
        raw = self._call(
            lambda client: client.interactions.with_raw_response.get(
                segment, stream=False, timeout=self._timeout
            )
        )
        return _interaction(raw, expected=interaction_id)

    def create_interaction(self, **wanted: Any) -> FetchedInteraction:
        """Start an interaction; sent once, whatever happens.

        Retry here means "perhaps it was started": Gemini has no idempotency key.
        """
        try:
            raw = self._call(
                lambda client: client.interactions.with_raw_response.create(
                    timeout=self._timeout, **wanted
                )
            )
        except NotYet:  # nothing we wait for: the model or the agent does not exist
            raise Refused("Gemini does not know the model or agent (404)") from None
        return _interaction(raw)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        with self._lock:
            client, self._built = self._built, None
        if client is not None:
            client.close()

    def _call(self, call: Callable[[Any], Any]) -> bytes:
        try:
            response = call(self._client()).http_response
            status, raw = response.status_code, bytes(response.content)
        except Exception as error:
            ours = _ours(error, key=self._key)
            if ours is None:
                raise
            raise ours from None  # the cause's text can hold a URL or headers with the key
        if status != OK:  # a redirect: not followed, since the key would travel with it
            raise Refused(f"Gemini answered {status} instead of an interaction")
        return raw

    def _client(self) -> Any:
        with self._lock:
            if self._built is None:
                self._built = official_client(
                    self._key, base_url=self._base_url, timeout=self._timeout
                )
            return self._built


def official_client(key: str, *, base_url: str | None, timeout: float = 30.0) -> Any:
    """Google's own client as we use it: bounded, not retrying, not following redirects."""
    try:
        from google import genai  # noqa: PLC0415 - takes a second, so never at start
        from google.genai import types  # noqa: PLC0415
    except ImportError:
        raise Misconfigured("google-genai is missing: pip install 'gemhooks[gemini]'") from None
    options = types.HttpOptions(
        base_url=base_url,
        timeout=round(timeout * 1000),
        retry_options=types.HttpRetryOptions(attempts=1),  # the schedule of retries is ours
        # Followed, a redirect takes the x-goog-api-key header to whatever host it names (tried).
        client_args={"follow_redirects": False},
    )
    return genai.Client(api_key=key, vertexai=False, http_options=options)


def _usable(key: str) -> str:
    key = key.strip()
    if not key:
        raise Misconfigured("a Gemini API key is missing: set GEMINI_API_KEY")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise Misconfigured("the Gemini API key has characters that no key has")
    return key


def _segment(interaction_id: str) -> str:
    """The id as exactly one segment of a path; the client itself would let ``../`` through."""
    if not interaction_id.strip("."):
        raise Refused("an id of dots only names no interaction")
    return quote(interaction_id, safe="", errors="replace")


def _interaction(raw: bytes, *, expected: str | None = None) -> FetchedInteraction:
    try:
        parsed = orjson.loads(raw)
    except (orjson.JSONDecodeError, RecursionError):
        raise Retry(MALFORMED) from None
    found = parsed.get("id") if isinstance(parsed, dict) else None
    if not isinstance(found, str) or not found or found != (expected or found):
        raise Retry(MALFORMED)
    return FetchedInteraction(found, raw, parsed)


def _ours(error: Exception, *, key: str) -> GemhooksError | None:
    """What *error* means to us; None for one that is a bug of ours and must be seen."""
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    if isinstance(status, int):
        return _of_status(status, error, key=key)
    if isinstance(error, GemhooksError):
        return error
    if isinstance(error, ArithmeticError):  # the client's own, over "Retry-After: inf" (tried)
        return Retry(MALFORMED)
    if isinstance(error, TypeError | ValueError):
        return Refused(f"google-genai refuses to send the request ({type(error).__name__})")
    if isinstance(error, OSError) or type(error).__module__.split(".")[0] in TRANSPORTS:
        return Retry(f"Gemini cannot be reached ({type(error).__name__})")
    return None


def _of_status(status: int, error: Exception, *, key: str) -> GemhooksError:
    if status == OK:
        return Retry(MALFORMED)
    if status == NOT_FOUND:
        return NotYet("not_found")
    if status == GONE:
        return Gone("Gemini says that it is gone (410)")
    if status in (REQUEST_TIMEOUT, TOO_MANY) or status >= SERVER_ERROR:
        return Retry(f"Gemini answered {status}", after=_retry_after(error))
    if status in KEY_REFUSED:
        return Refused(f"Gemini refuses our API key for this ({status})")
    return Refused(f"Gemini answered {status}: {_text(error, key=key)}")


def _retry_after(error: Exception) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    seconds = _seconds(str(headers.get("retry-after", "")))
    return None if seconds is None or not seconds >= 0 else min(seconds, LONGEST_WAIT)


def _seconds(text: str) -> float | None:
    """A Retry-After in either of HTTP's two forms."""
    with suppress(ValueError):
        return float(text)
    with suppress(ValueError, TypeError):
        return (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    return None


def _text(error: Exception, *, key: str) -> str:
    """What the server says, bounded, on one line, and without the key should it echo it."""
    body = getattr(error, "body", None)
    inner = body.get("error") if isinstance(body, dict) else None
    message = inner.get("message") if isinstance(inner, dict) else None
    text = message if isinstance(message, str) else str(body or "")
    return " ".join(text.replace(key, "[key]").split())[:LONGEST_TEXT]
