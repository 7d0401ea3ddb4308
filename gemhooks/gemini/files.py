"""Files that Gemini made, as a stream of bytes from any place on.

Raw, since Google's client holds a file in memory or writes it where a crash leaves half of it, and
misreads the address of a batch's results.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gemhooks.errors import Refused, Retry
from gemhooks.gemini.rest import CHUNK, PARTIAL, Place, Rest, Shorter

if TYPE_CHECKING:
    import urllib3

__all__ = ["Download", "Files", "Shorter"]

FILE_NAME = re.compile(r"files/[A-Za-z0-9_-]{1,120}")
# v1beta/files/abc, /download/v1beta/files/abc:download and the like: the same file for us.
FILE_PATH = re.compile(r"/(?:download/)?v[0-9a-z]+/(files/[A-Za-z0-9_-]{1,120})(?::download)?")
STALLED = 60.0  # seconds after which a download must have been worth its connection
SLOWEST = 1024  # bytes per second
CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


@dataclass(frozen=True)
class Download:
    """Bytes of a file from *start* on; *total* is the length of the whole, where it is known."""

    start: int
    total: int | None
    content_type: str
    version: str  # an ETag, or empty
    chunks: Iterator[bytes]


class Files:
    """Downloads; never ``files.get``, which refuses the names of batches' results."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    @contextmanager
    def open(self, source: str, *, start: int = 0) -> Iterator[Download]:
        """Open *source*, a ``files/...`` name or a URL, at byte *start*.

        A server that knows no ranges begins at 0. Raises NotYet for a 404, Gone, Retry, also for a
        cut in the middle or bytes that are encoded, Shorter, and Refused for a place that is not
        allowed.
        """
        headers = {"Range": f"bytes={start}-"} if start else {}
        with self._rest.get(self._place(source), headers) as response:
            _must_be_plain(response.headers)
            begin, total = _extent(response.status, response.headers, start)
            yield Download(
                begin,
                total,
                response.headers.get("content-type", ""),
                response.headers.get("etag", ""),
                _arriving(response, time.monotonic),
            )

    def _place(self, source: str) -> Place:
        return self._rest.place(self._api_path(source) or _url(source))

    def _api_path(self, source: str) -> str:
        """The path of a file of Gemini's own, by whatever address; empty for another place."""
        if FILE_NAME.fullmatch(source):
            return f"{source}:download?alt=media"
        named = FILE_PATH.fullmatch(_path(source)) if self._rest.is_gemini(source) else None
        return f"{named[1]}:download?alt=media" if named else ""


def _arriving(response: "urllib3.BaseHTTPResponse", now: Callable[[], float]) -> Iterator[bytes]:
    """What has arrived, as it does; Retry for a server that only drips."""
    since, arrived = now(), 0
    while chunk := response.read1(CHUNK, decode_content=False):
        yield chunk
        arrived += len(chunk)
        if now() - since > STALLED:
            if arrived < SLOWEST * STALLED:
                raise Retry("the result comes too slowly")
            since, arrived = now(), 0


def _path(url: str) -> str:
    return urlsplit(url).path


def _url(source: str) -> str:
    if source.startswith(("https:", "http:")):
        return source
    if source.startswith("gs://"):
        raise Refused("gs:// needs the bucket's own credentials: fetch it with gcloud storage")
    raise Refused("the place of the result is neither a file's name nor a URL")


def _must_be_plain(headers: Mapping[str, str]) -> None:
    """Raise Retry where the bytes are not the file's own: its ranges and length count no other."""
    encoding = headers.get("content-encoding", "").strip()
    if encoding.lower() not in ("", "identity"):
        raise Retry(f"the result comes encoded ({encoding[:40]}), though we accept no encoding")


def _extent(status: int, headers: Mapping[str, str], asked: int) -> tuple[int, int | None]:
    """Where the bytes begin and how many the whole has."""
    if status != PARTIAL:
        length = headers.get("content-length", "")
        return 0, int(length) if length.isdecimal() else None
    found = CONTENT_RANGE.fullmatch(headers.get("content-range", "").strip())
    if found is None or int(found[1]) != asked:
        raise Retry("a part of the result does not begin where it was asked to")
    return asked, int(found[3])
