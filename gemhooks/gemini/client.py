"""The connection to Gemini: Google's own client, built at the first call, bounded and sent once."""

from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from threading import Lock
from typing import Any
from urllib.parse import quote

from gemhooks.errors import Misconfigured, Refused
from gemhooks.gemini.errors import OK, Asked, meant_by, ours, unheard
from gemhooks.gemini.rest import bounded


class Connection:
    """One project's access to the Gemini API. Safe to share between threads."""

    def __init__(
        self,
        api_key: str,
        *,
        base_url: str | None = None,
        timeout: float = 30.0,
        asked: Asked = unheard,
    ) -> None:
        """*asked* hears the status of each answer."""
        self._asked = asked
        self._key = _usable(api_key)
        _check_installed()
        self._base_url = base_url or None
        self._timeout = timeout
        self._lock = Lock()
        self._built: Any = None

    def call(self, call: Callable[[Any, float], Any]) -> bytes:
        """What ``call(client, timeout in seconds)``, a streamed response's call, answers, as bytes.

        Raises ours for what Google's client raises: see :func:`gemhooks.gemini.errors.ours`, and
        for an answer that is too large or too slow.
        """
        try:
            with call(self._client(), self._timeout) as response:
                status = response.status_code
                raw = bounded(response.iter_bytes(), self._timeout)
            self._asked(status)
        except Exception as error:
            self._asked(meant_by(error))
            known = ours(error, key=self._key)
            if known is None:
                raise
            raise known from None  # the cause's text can hold a URL or headers with the key
        if status != OK:  # a redirect: not followed, since the key would travel with it
            raise Refused(f"Gemini answered {status} instead of a result")
        return raw

    def ask(self, call: Callable[[Any], Any]) -> Any:
        """What ``call(client)`` returns, where Google's client gives no bytes; see :meth:`call`."""
        try:
            answer = call(self._client())
            self._asked(OK)
        except Exception as error:
            self._asked(meant_by(error))
            known = ours(error, key=self._key)
            if known is None:
                raise
            raise known from None
        return answer

    def prepare(self) -> None:
        """Build the client, if that can be done; else the first call will tell why not."""
        with suppress(Exception):
            self._client()

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        with self._lock:
            client, self._built = self._built, None
        if client is not None:
            client.close()

    def _client(self) -> Any:
        with self._lock:
            if self._built is None:
                self._built = official_client(
                    self._key, base_url=self._base_url, timeout=self._timeout
                )
            return self._built


def official_client(key: str, *, base_url: str | None, timeout: float = 30.0) -> Any:
    """Google's own client as we use it: bounded, not retrying, not following redirects."""
    _check_installed()
    from google import genai  # noqa: PLC0415 - takes a second, so never at start
    from google.genai import types  # noqa: PLC0415

    options = types.HttpOptions(
        base_url=base_url,
        timeout=round(timeout * 1000),
        retry_options=types.HttpRetryOptions(attempts=1),  # the schedule of retries is ours
        # Followed, a redirect takes the x-goog-api-key header to whatever host it names (tried).
        client_args={"follow_redirects": False},
    )
    return genai.Client(api_key=key, vertexai=False, http_options=options)


def _check_installed() -> None:
    """Raise Misconfigured at the start, and not for each event, where the client is missing."""
    if find_spec("google") is None or find_spec("google.genai") is None:
        raise Misconfigured("google-genai is missing: pip install 'gemhooks[gemini]'")


def _usable(key: str) -> str:
    key = key.strip()
    if not key:
        raise Misconfigured("a Gemini API key is missing: set GEMINI_API_KEY")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise Misconfigured("the Gemini API key has characters that no key has")
    return key


def segment(interaction_id: str) -> str:
    """The id as exactly one segment of a path; the client itself would let ``../`` through."""
    if not interaction_id.strip("."):
        raise Refused("an id of dots only names no interaction")
    return quote(interaction_id, safe="", errors="replace")
