"""Server-sent events: the framing of an interaction's stream, bounded and never guessed at."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from gemhooks.errors import Refused
from gemhooks.gemini.client import segment
from gemhooks.gemini.rest import LARGEST_ANSWER, Rest

if TYPE_CHECKING:
    import urllib3

CHUNK = 64 << 10  # bytes at most of a read; what has arrived is given at once
DONE = "[DONE]"


@dataclass(frozen=True, slots=True)
class Frame:
    """One event as framed: its name and its data, both perhaps empty."""

    name: str
    data: str


class Streams:
    """The event streams of interactions."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    def frames(self, interaction_id: str, *, after: str = "") -> Iterator[Frame]:
        """The frames after the event *after*, until the server ends or the connection does.

        Raises NotYet, Retry, Gone or Refused as a GET does. A frame that was cut is not given.
        """
        asked = {"stream": "true"} | ({"last_event_id": after} if after else {})
        path = f"interactions/{segment(interaction_id)}?{urlencode(asked)}"
        headers = {"Accept": "text/event-stream"}
        with self._rest.get(self._rest.place(path), headers) as response:
            yield from frames(_arriving(response))


def _arriving(response: "urllib3.BaseHTTPResponse") -> Iterator[bytes]:
    while chunk := response.read1(CHUNK):
        yield chunk


def frames(chunks: Iterable[bytes]) -> Iterator[Frame]:
    """Cut *chunks* into frames; Refused for one larger than an answer may be."""
    name, data, size = "", list[str](), 0
    for line in _lines(chunks):
        if not line:
            if data:
                yield Frame(name, "\n".join(data))
            name, data, size = "", [], 0
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
            size = _bounded(size + len(value))


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines without their ends: LF, CR or both. What has no end was cut, and is dropped."""
    rest, after_cr, mark = bytearray(), False, "\ufeff"
    for chunk in chunks:
        rest += chunk[1:] if after_cr and chunk.startswith(b"\n") else chunk
        after_cr = chunk.endswith(b"\r")
        found = rest.splitlines(keepends=True) if b"\n" in chunk or b"\r" in chunk else []
        rest = found.pop() if found and not found[-1].endswith((b"\n", b"\r")) else rest
        if found and rest.endswith((b"\n", b"\r")):
            rest = bytearray()
        _bounded(len(rest))
        for line in found:
            yield line.rstrip(b"\r\n").decode("utf-8", "replace").removeprefix(mark)
            mark = ""  # a byte order mark may stand at the very start only


def _bounded(size: int) -> int:
    if size > LARGEST_ANSWER:
        raise Refused(f"an event of the stream is larger than {LARGEST_ANSWER >> 20} MiB")
    return size
