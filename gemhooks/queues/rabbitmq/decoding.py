"""Headers that pika cannot decode, made harmless.

pika takes a time beyond year 9999 (milliseconds, say) or tables nested without end for a fault of
the connection: it drops it, the message comes again, and no queue of the process moves any more.
"""

from functools import cache
from struct import unpack_from
from typing import Any

from pika import data

TIME = b"T"  # eight bytes; what else can fail says its own length
UNDECODABLE = (ValueError, OverflowError, OSError, RecursionError)


@cache
def tolerate() -> None:
    """Let pika, in the whole process, read as None what would raise; done once."""
    decode = data.decode_value

    def tolerant(encoded: bytes, offset: int) -> tuple[Any, int]:
        try:
            return decode(encoded, offset)
        except UNDECODABLE:
            return None, offset + 1 + _length(encoded, offset)

    data.decode_value = tolerant


def _length(encoded: bytes, offset: int) -> int:
    if encoded[offset : offset + 1] == TIME:
        return 8
    return 4 + int(unpack_from(">I", encoded, offset + 1)[0])
