"""Cuts bytes that arrive in pieces into lines, however large the whole is."""

import codecs
from collections.abc import Iterable, Iterator

LONGEST_LINE = 32 << 20  # bytes; a longer one is not read as a row


class Lines:
    """Lines without their ends, nor the byte order mark that Windows puts before the first.

    Of a line that is too long only the beginning is kept.
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self._mark = codecs.BOM_UTF8  # until the first line is there

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that *chunk* completes; empty ones are left out."""
        start, end = 0, chunk.find(b"\n")
        if end < 0:
            self._keep(chunk)
            return
        while end >= 0:
            line = self._completed(chunk, start, end).removeprefix(self._mark).rstrip(b"\r")
            self._mark = b""
            if line:
                yield line
            start = end + 1
            end = chunk.find(b"\n", start)
        self._rest = bytearray(chunk[start:])

    def end(self) -> Iterator[bytes]:
        """The last line, if the file does not end with a line's end."""
        line, self._rest = bytes(self._rest).removeprefix(self._mark), bytearray()
        if line := line.rstrip(b"\r"):
            yield line

    def _completed(self, chunk: bytes, start: int, end: int) -> bytes:
        if not self._rest:
            return chunk[start:end]
        self._keep(chunk[start:end])
        line, self._rest = bytes(self._rest), bytearray()
        return line

    def _keep(self, piece: bytes) -> None:
        self._rest += piece[: max(0, LONGEST_LINE - len(self._rest))]


def lines_of(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """All lines of *chunks*."""
    lines = Lines()
    for chunk in chunks:
        yield from lines.feed(chunk)
    yield from lines.end()
