"""What the fetching workers need of the world, in memory, and events for them."""

import base64
import json
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from gemhooks import events, topology
from gemhooks.errors import NotYet, Retry
from gemhooks.gemini.files import Download, Shorter
from gemhooks.messages import Message


@dataclass
class MemoryPublisher:
    """Keeps what was published; confirms at once, or never."""

    confirms: bool = True
    published: list[Message] = field(default_factory=list)
    unconfirmed: int = 0

    def publish(self, message: Message, *, exchange: str = topology.EVENTS) -> Future[None]:
        assert exchange == topology.RESULTS
        self.published.append(message)
        future: Future[None] = Future()
        if self.confirms:
            future.set_result(None)
        else:
            self.unconfirmed += 1
        return future

    def bodies(self, name: str) -> list[dict[str, Any]]:
        return [orjson.loads(each.body)["data"] for each in self.published if each.type == name]


@dataclass
class MemoryJobs:
    """Keeps the last that was recorded."""

    last: dict[str, Any] = field(default_factory=dict)

    def record(
        self,
        kind: str,
        id: str,  # noqa: A002 - the protocol's name
        state: str,
        *,
        event_type: str = "",
        error_code: str = "",
        error_message: str = "",
        user_metadata: dict[str, Any] | None = None,
    ) -> None:
        self.last = {
            "kind": kind,
            "id": id,
            "state": state,
            "error_code": error_code,
            "error_message": error_message,
        }


@dataclass
class MemoryIndex:
    """Keeps where things were stored."""

    rows: list[tuple[str, str, str, int]] = field(default_factory=list)

    def record(self, kind: str, id: str, url: str, size: int, /) -> None:  # noqa: A002
        self.rows.append((kind, id, url, size))


@dataclass
class MemoryFiles:
    """Files that come in pieces; a connection ends after so many bytes as *cuts* say."""

    content: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    knows_ranges: bool = True
    knows_length: bool = True
    content_type: str = "video/mp4"
    piece: int = 1000
    opened: list[tuple[str, int]] = field(default_factory=list)

    @contextmanager
    def open(self, source: str, /, *, start: int = 0) -> Iterator[Download]:
        self.opened.append((source, start))
        if source not in self.content:
            raise NotYet("not_found")
        whole = self.content[source]
        if self.knows_ranges and start > len(whole):
            raise Shorter("shorter")
        begin = start if self.knows_ranges else 0
        total = len(whole) if self.knows_length else None
        yield Download(begin, total, self.content_type, "", self._pieces(whole, begin))

    def _pieces(self, whole: bytes, begin: int) -> Iterator[bytes]:
        stop = begin + self.cuts.pop(0) if self.cuts else len(whole)
        for start in range(begin, min(stop, len(whole)), self.piece):
            yield whole[start : min(start + self.piece, stop)]
        if stop < len(whole):
            raise Retry("cut")


@dataclass
class MemoryOperations:
    """Operations by name; what is an error is raised."""

    found: dict[str, Any] = field(default_factory=dict)

    def get(self, name: str, /) -> dict[str, Any]:
        answer = self.found.get(name, NotYet("not_found"))
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)


def event(name: str, **data: Any) -> Any:
    body = {"type": name, "version": "v1", "timestamp": "2026-11-30T07:00:00Z", "data": data}
    return events.parse(orjson.dumps(body))


def ask(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """POST to the simulator what the official client would."""
    headers = {"x-goog-api-key": "any", "content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        return dict(json.load(answer))


MP4 = base64.b64decode("AAAAGGZ0eXBtcDQyAAAAAG1wNDJpc29t") + bytes(100)
