"""Raw requests, where Google's client loses data or holds it all: streams, downloads, batches.

Only to hosts that are allowed: the key goes to Gemini's own origin, nowhere else,
whatever a payload or a redirect names.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import SplitResult, urljoin, urlsplit

from gemhooks import jsontext
from gemhooks.errors import AnswerLost, Refused, Retry
from gemhooks.gemini.errors import (
    BAD_REQUEST,
    MALFORMED,
    OK,
    Asked,
    meaning,
    of_status,
    unheard,
)

if TYPE_CHECKING:
    import urllib3

    from gemhooks.gemini.pools import Pools

GOOGLE = "https://generativelanguage.googleapis.com"
API_VERSION = "v1"
LARGEST_ANSWER = 64 << 20  # bytes of JSON; media inline in an interaction are the largest known
LARGEST_REFUSAL = 64 << 10  # bytes of an error's body that are read
CHUNK = 1 << 20  # bytes
MOST_REDIRECTS = 5
ANSWER_TIMEOUTS = 4  # an answer must be whole within so many timeouts, however it drips
PARTIAL, REDIRECTS, TOO_FAR = 206, (301, 302, 303, 307, 308), 416


class Shorter(Retry):
    """The file ends before the byte that was asked for."""


@dataclass(frozen=True)
class Place:
    """A URL that may be asked, and whether our key goes there."""

    url: str
    ours: bool


class Rest:
    """Gemini's origin and the hosts its results lie on. Safe to share between threads.

    *timeout* is in seconds, for a connect and for each read. A name in *hosts* with a dot in front
    is any host below it.
    """

    def __init__(
        self,
        key: str,
        *,
        base_url: str | None = None,
        timeout: float = 30.0,
        hosts: tuple[str, ...] = (),
        asked: Asked = unheard,
    ) -> None:
        self._key = key
        self._asked = asked
        self._base_url = (base_url or GOOGLE).rstrip("/")
        self._origin = _origin(_split(self._base_url))
        self._hosts = tuple(host.lower() for host in hosts)
        self._timeout = timeout

    def json(self, path: str, *, advice: str = "") -> tuple[bytes, Any]:
        """The answer to GET *path*, whole and parsed. Raises ours, as the whole package does.

        *advice* is what to do about an answer that is too large: the end of the error's sentence.
        """
        with self.get(self.place(path)) as response:
            raw = bounded(response.stream(CHUNK), self._timeout, advice)
        try:
            return raw, jsontext.loads(raw)
        except (jsontext.Malformed, RecursionError):
            raise Retry(MALFORMED) from None

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The parsed answer to POST *path*, sent once.

        Raises AnswerLost where nobody knows whether it arrived, and as the whole package does.
        """
        sent = {"Content-Type": "application/json"}
        try:
            response = self._request(
                self.place(path), sent, method="POST", body=jsontext.dumps(body)
            )
            with closing(response):
                if response.status != OK:
                    self._refuse(response)
                return jsontext.loads(bounded(response.stream(CHUNK), self._timeout))
        except _not_connected() as error:
            raise Retry(f"Gemini cannot be reached ({type(error).__name__})") from None
        except _failures() as error:
            raise AnswerLost(f"Gemini did not answer ({type(error).__name__})") from None
        except (jsontext.Malformed, RecursionError):
            raise AnswerLost(MALFORMED) from None

    @contextmanager
    def get(
        self, place: Place, headers: Mapping[str, str] | None = None
    ) -> "Iterator[urllib3.BaseHTTPResponse]":
        """The answer to a GET, unread; what goes wrong inside the block becomes ours too."""
        response: urllib3.BaseHTTPResponse | None = None
        try:
            response = self._followed(place, headers or {})
            yield response
        except _failures() as error:
            raise Retry(f"Gemini cannot be reached ({type(error).__name__})") from None
        finally:
            if response is not None:
                response.close()  # not back to the pool: it may be half read
                response.release_conn()

    def place(self, path_or_url: str) -> Place:
        """Where that is: a path of the API, or a URL on a host that is allowed.

        Raises Refused for any other.
        """
        if not path_or_url.startswith(("http:", "https:")):
            return Place(f"{self._base_url}/{API_VERSION}/{path_or_url}", ours=True)
        parts = _split(path_or_url)
        if _origin(parts) == self._origin:
            return Place(path_or_url, ours=True)
        if parts.scheme != "https" or parts.port not in (None, 443) or not self._allowed(parts):
            raise Refused(f"results are not fetched from {parts.scheme}://{parts.hostname}"[:200])
        return Place(path_or_url, ours=_origin(parts) == _origin(_split(GOOGLE)))

    def is_gemini(self, url: str) -> bool:
        """Whether *url* is of the API, at Google's own address or at the configured one."""
        if not url.startswith(("http:", "https:")):
            return False
        return _origin(_split(url)) in (self._origin, _origin(_split(GOOGLE)))

    def close(self) -> None:
        if "_pools" in vars(self):
            self._pools.close()

    @cached_property
    def _pools(self) -> "Pools":
        """Made for the first request: an idle worker does without urllib3, a MiB of its memory."""
        from gemhooks.gemini.pools import Pools  # noqa: PLC0415

        return Pools(self._timeout)

    def _allowed(self, parts: SplitResult) -> bool:
        host = (parts.hostname or "").rstrip(".")
        return any(
            host.endswith(each) if each.startswith(".") else host == each for each in self._hosts
        )

    def _followed(self, place: Place, headers: Mapping[str, str]) -> "urllib3.BaseHTTPResponse":
        response = self._request(place, headers)
        for _ in range(MOST_REDIRECTS):
            if response.status not in REDIRECTS:
                break
            target = urljoin(place.url, response.headers.get("location", ""))
            response.close()
            place = self.place(target)
            response = self._request(place, headers)
        if response.status not in (OK, PARTIAL):
            self._refuse(response)
        return response

    def _request(
        self,
        place: Place,
        headers: Mapping[str, str],
        *,
        method: str = "GET",
        body: bytes | None = None,
    ) -> "urllib3.BaseHTTPResponse":
        sent = {"Accept-Encoding": "identity", "User-Agent": "gemhooks", **headers}
        if place.ours:
            sent["x-goog-api-key"] = self._key
        parts = _split(place.url)
        pool = self._pools.of(
            parts.scheme, parts.hostname or "", own=_origin(parts) == self._origin
        )
        try:
            response = pool.request(
                method, place.url, body=body, headers=sent, redirect=False, preload_content=False
            )
        except _failures():
            self._asked(None)
            raise
        if response.status != BAD_REQUEST:  # what that means, only its body says
            self._asked(response.status)
        return response

    def _refuse(self, response: "urllib3.BaseHTTPResponse") -> NoReturn:
        if response.status == TOO_FAR:
            raise Shorter("the file is shorter than what has arrived of it")
        body = None
        with suppress(*_failures(), jsontext.Malformed):
            body = jsontext.loads(response.read(LARGEST_REFUSAL))
        response.close()
        if response.status == BAD_REQUEST:
            self._asked(meaning(response.status, body))
        raise of_status(response.status, response.headers, body, key=self._key)


def _failures() -> tuple[type[Exception], ...]:
    """What may come of a request; only asked for where something has come."""
    from urllib3.exceptions import HTTPError  # noqa: PLC0415 - see Rest._pools

    return HTTPError, OSError


def _not_connected() -> tuple[type[Exception], ...]:
    from urllib3.exceptions import ConnectTimeoutError, NewConnectionError  # noqa: PLC0415

    return NewConnectionError, ConnectTimeoutError


def bounded(chunks: Iterable[bytes], timeout: float, advice: str = "") -> bytes:
    """All of *chunks*; Refused for too many bytes, Retry for too slow ones."""
    deadline = time.monotonic() + ANSWER_TIMEOUTS * timeout
    whole = bytearray()
    for chunk in chunks:
        whole += chunk
        if len(whole) > LARGEST_ANSWER:
            raise Refused(f"Gemini's answer is larger than {LARGEST_ANSWER >> 20} MiB{advice}")
        if time.monotonic() > deadline:
            raise Retry("Gemini's answer did not end in time")
    return bytes(whole)


def _split(url: str) -> SplitResult:
    """The parts of *url*; Refused for one that is none, or that carries a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # parsed only when asked for
    except ValueError:
        raise Refused("a URL that cannot be read") from None
    if not parts.hostname or parts.username is not None or parts.password is not None:
        raise Refused("a URL without a host, or with a user in it")
    return parts


def _origin(parts: SplitResult) -> tuple[str, str, int]:
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    return parts.scheme, parts.hostname or "", port
