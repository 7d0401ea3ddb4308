"""What is in a file: bytes on disk, or bytes that are made while they are read."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

PIECE = 1 << 18  # bytes; what is held in memory at once


class Content(Protocol):
    """So many bytes, of which any part can be read."""

    @property
    def size(self) -> int: ...

    @property
    def stored(self) -> int:
        """How many bytes it takes up."""
        ...

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes from *start* up to *stop*, in pieces."""
        ...

    def drop(self) -> None:
        """Give back what it takes up."""
        ...


@dataclass(frozen=True)
class OnDisk:
    """A file of the simulator's own folder."""

    path: Path

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    @property
    def stored(self) -> int:
        return self.size

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            file.seek(start, os.SEEK_SET)
            while start < stop and (piece := file.read(min(PIECE, stop - start))):
                start += len(piece)
                yield piece

    def drop(self) -> None:
        self.path.unlink(missing_ok=True)


class Generated:
    """Pieces of one length that are made when they are read: gigabytes cost nothing."""

    def __init__(self, count: int, length: int) -> None:
        self.count = count
        self.length = length  # bytes of each piece

    @property
    def size(self) -> int:
        return self.count * self.length

    @property
    def stored(self) -> int:
        return 0

    def piece(self, number: int) -> bytes:
        raise NotImplementedError

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        together = max(1, PIECE // self.length)  # small pieces travel together
        for first in range(start // self.length, self.count, together):
            offset = first * self.length
            if offset >= stop:
                return
            last = min(first + together, self.count)
            joined = b"".join(self.piece(number) for number in range(first, last))
            yield joined[max(0, start - offset) : stop - offset]

    def drop(self) -> None:
        pass


class Film(Generated):
    """Something that begins like an MP4 file; nobody can watch the rest."""

    HEAD = b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom"
    FRAME = 1024  # bytes

    def __init__(self, size: int) -> None:
        super().__init__(max(1, -(-size // self.FRAME)), self.FRAME)
        self._size = size

    @property
    def size(self) -> int:
        return self._size

    def piece(self, number: int) -> bytes:
        frame = number.to_bytes(8, "big") * (self.FRAME // 8)
        return frame if number else self.HEAD + frame[len(self.HEAD) :]

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        return super().read(start, min(stop, self._size))
