"""How a port is closed without resetting those who knock in that moment.

Closing a socket that listens resets every connection that the kernel has made and nobody has taken.
So the kernel is told first to make no more of them: who comes now tries again a second later, and
finds the port closed.
"""

import socket
import struct
import sys
from array import array
from contextlib import suppress

SO_ATTACH_FILTER = 26  # Linux's; the module socket does not name it
SYN = 0x02
# For the kernel's packet filter: code, two jumps, an operand. What has a SYN is dropped.
NO_SYN = (
    (0x30, 0, 0, 13),  # load the byte with the flags of TCP
    (0x45, 0, 1, SYN),  # skip the next unless SYN is among them
    (0x06, 0, 0, 0),  # take nothing of it
    (0x06, 0, 0, 0xFFFFFFFF),  # take all
)


def turn_away(listener: socket.socket) -> None:
    """Let nobody else knock; who has begun to is still let in. Elsewhere than on Linux, nothing."""
    if sys.platform != "linux":
        return
    program = array("B", b"".join(struct.pack("HBBI", *each) for each in NO_SYN))
    given = struct.pack("HP", len(NO_SYN), program.buffer_info()[0])
    with suppress(OSError):  # a kernel that has no such filter
        listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, given)
