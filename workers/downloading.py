"""Fetches a large result into a partial file, going on where a cut or a crash has left it."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import structlog

from gemhooks.errors import NotYet, Retry
from gemhooks.gemini.files import Download, Shorter
from gemhooks.results import Partial
from workers.progress import unnoted

# Read again and compared when a download goes on: a file that changed, or a tail that a power cut
# took, shows.
OVERLAP = 64 << 10  # bytes
WORTH = 1 << 20  # bytes; a connection that brought as much is followed by another at once
PAUSE = 0.5  # seconds before that
CHUNK = 1 << 20
log = structlog.get_logger()


class FileReader(Protocol):
    """Gemini's files."""

    def open(self, source: str, /, *, start: int = 0) -> AbstractContextManager[Download]:
        """The bytes of *source* from *start* on; NotYet, Retry, Gone or Refused."""
        ...


class Sink(Protocol):
    """Looks at the bytes as they arrive."""

    def restart(self) -> None:
        """All that was fed is void: the file begins anew."""
        ...

    def feed(self, chunk: bytes, /) -> None: ...


class NoSink:
    """Looks at nothing."""

    def restart(self) -> None:
        pass

    def feed(self, chunk: bytes, /) -> None:
        pass


@dataclass
class Downloading:
    """One result on its way; *accept* may refuse it by its first answer."""

    files: FileReader
    source: str
    partial: Partial
    sink: Sink
    accept: Callable[[Download], None] = lambda _: None
    further: Callable[[], None] = unnoted  # called once it is worth its start
    pause: Callable[[float], None] = time.sleep
    fetched: int = 0  # bytes, what was fetched twice included
    content_type: str = ""
    _brought: int = 0  # bytes that were not there before

    def run(self) -> None:
        """Return once the partial is whole. Raises Retry, with what has arrived kept, and others.

        A cut is mended here as long as each connection brings something.
        """
        self._feed_what_is_there()
        while not self._is_whole_after_a_connection():
            log.info("download_cut", size=self.partial.size)
            self.pause(PAUSE)

    def _is_whole_after_a_connection(self) -> bool:
        before = self.partial.size
        try:
            self._connection()
        except NotYet:
            raise
        except Shorter:
            self._restart()
            raise
        except Retry:
            if self.partial.size - before < WORTH:
                raise
            return False
        return True

    def _connection(self) -> None:
        tail = self.partial.tail(OVERLAP)
        start = self.partial.size - len(tail)
        with self.files.open(self.source, start=start) as download:
            self.accept(download)
            self.content_type = download.content_type
            if download.start != start:  # a server that knows no ranges
                self._restart()
                tail = b""
            for chunk in self._new(tail, self._counted(download.chunks)):
                self.partial.write(chunk)
                self.sink.feed(chunk)
                self._note(len(chunk))
        if download.total is not None and self.partial.size != download.total:
            self._cut(download.total)

    def _note(self, size: int) -> None:
        before = self._brought
        self._brought += size
        if before < WORTH <= self._brought:
            self.further()

    def _cut(self, total: int) -> None:
        if self.partial.size > total:
            self._restart()
        raise Retry(f"{self.partial.size} of {total} bytes arrived")

    def _counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.fetched += len(chunk)
            yield chunk

    def _new(self, tail: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """What comes after *tail*, which must come first."""
        again = b""
        while len(again) < len(tail):
            chunk = next(chunks, b"")
            if not chunk:
                raise Retry("the connection ended too soon")
            again += chunk
        if not again.startswith(tail):
            self._restart()
            raise Retry("the result is another one than before: it is fetched anew")
        if rest := again[len(tail) :]:
            yield rest
        yield from chunks

    def _restart(self) -> None:
        self.partial.truncate()
        self.sink.restart()

    def _feed_what_is_there(self) -> None:
        with self.partial.path.open("rb") as file:
            while chunk := file.read(CHUNK):
                self.sink.feed(chunk)
