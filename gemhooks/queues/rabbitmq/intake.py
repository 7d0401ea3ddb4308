"""Between a stream and pika: deliveries go past it, all else it reads as it came, in order."""

from collections.abc import Callable
from contextlib import suppress

from gemhooks.queues.rabbitmq import arrivals
from gemhooks.queues.rabbitmq.arrivals import Arrival, Partial
from gemhooks.queues.rabbitmq.layout import HEAD, METHOD, OVERHEAD

KINDS = (1, 2, 3, 8)  # of frames; anything else is pika's to judge
PIECE = 8192  # bytes given to pika at once: of what it has, it copies the rest after each frame

Take = Callable[[Arrival], None]
Takers = dict[
    int, tuple[bytes, Take]
]  # channel: how a delivery to its consumer begins, whose it is


class Intake:
    """Splits what one connection receives between the *takers* and the *rest*, which is pika's.

    A delivery that is not read here (its body has several frames, say) is pika's to the end: we
    only look where one begins.
    """

    def __init__(
        self, takers: Takers, *, rest: Callable[[bytes], None], taken: Callable[[int], None]
    ) -> None:
        """*taken* hears how many bytes pika never sees: they prove that the other end lives."""
        self._takers = takers
        self._rest = rest
        self._taken = taken
        self._kept = b""  # the beginning of a frame, or of a delivery
        self._is_odd = False

    def feed(self, data: bytes) -> None:
        data, self._kept = self._kept + data, b""
        if self._is_odd:
            self._rest(data)
        else:
            self._kept = data[self._split(data) :]

    def _split(self, data: bytes) -> int:
        """Hand out what is whole, in order; answers how far that went."""
        passed = at = 0  # what lies between them waits for pika
        with suppress(Partial):
            while True:
                kind, channel, end = self._frame(data, at)
                if kind == METHOD and channel in self._takers:
                    self._pass(data, passed, at)  # first: it may end a consumer
                    passed = at
                    if taken := self._delivered(data, at, channel):
                        passed = end = taken
                at = end
        self._pass(data, passed, at)
        return at

    def _frame(self, data: bytes, at: int) -> tuple[int, int, int]:
        """Its kind, its channel and its end."""
        if len(data) < at + HEAD:
            raise Partial
        kind, channel, length = arrivals.head(data, at)
        if kind not in KINDS:
            self._is_odd = True
            return kind, channel, len(data)
        end: int = at + length + OVERHEAD
        if len(data) < end:
            raise Partial
        return kind, channel, end

    def _delivered(self, data: bytes, at: int, channel: int) -> int:
        """Give a delivery to its taker; answers where it ends, 0 for what is pika's."""
        if channel not in self._takers:
            return 0
        begins, take = self._takers[channel]
        if not data.startswith(begins, at + HEAD):
            return 0
        try:
            arrival, end = arrivals.read(data, at, len(begins))
        except Partial:
            raise
        except Exception:  # whatever it is, pika is asked
            return 0
        self._taken(end - at)
        take(arrival)
        return end

    def _pass(self, data: bytes, start: int, end: int) -> None:
        for at in range(start, end, PIECE):
            self._rest(data[at : min(at + PIECE, end)])
