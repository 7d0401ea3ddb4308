"""Sends dead letters back to the consumer they came from."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum

from gemhooks import events, topology
from gemhooks.errors import PublishFailed, Undecodable
from gemhooks.messages import Broker, Look, Message, Seen

WINDOW = 100  # letters whose confirms are awaited at once
CONFIRM = 30.0  # seconds; the broker itself gives up long before

IsDone = Callable[[str, str], bool]  # queue, key


class Fate(StrEnum):
    REPLAYED = "replayed"
    ALREADY_DONE = "already done"
    FAILED = "failed"


@dataclass
class Replayer:
    """Each letter leaves the dead letters only after its queue confirmed the message.

    Interrupted between the two, the letter is there twice, and its key makes it once.
    """

    broker: Broker
    look: Look
    target: str  # a queue; empty: whoever is bound to the event's type
    is_done: IsDone
    force: bool = False
    failures: Counter[str] = field(default_factory=Counter[str])
    _under_way: deque[tuple[Seen, Future[None]]] = field(default_factory=deque)

    def replay(self, letters: Iterable[Seen]) -> Iterator[Fate]:
        """What became of each letter, as soon as it is known."""
        try:
            for seen in letters:
                yield from self._send(seen)
                while len(self._under_way) >= WINDOW:
                    yield self._await()
        finally:  # also where a person interrupts it: what was sent must leave the letters
            rest = [self._await() for _ in range(len(self._under_way))]
        yield from rest

    def _send(self, seen: Seen) -> Iterator[Fate]:
        # The same letter, forced again after an interruption, has the same number: it runs once.
        number = seen.message.replay + 1 if self.force else seen.message.replay
        message = seen.message.afresh(replay=number)
        if self.target and any(self.is_done(self.target, key) for key in keys(message)):
            yield Fate.ALREADY_DONE
            return
        if self.target:
            future = self.broker.send(self.target, message)
        else:
            future = self.broker.publisher.publish(message)
        self._under_way.append((seen, future))

    def _await(self) -> Fate:
        seen, future = self._under_way.popleft()
        try:
            future.result(CONFIRM)
        except PublishFailed as error:
            self.failures[error.reason] += 1
            return Fate.FAILED
        except TimeoutError:
            self.failures["timeout"] += 1
            return Fate.FAILED
        self.look.remove(seen)
        return Fate.REPLAYED


def keys(message: Message) -> Iterator[str]:
    """By which the ledger may know it: consumers are once per message or once per resource."""
    yield message.key
    try:
        yield message.key_of(events.parse(message.body).subject)
    except Undecodable:
        return


def target_of(letters: str) -> str:
    """The queue whose dead letters these are; none for what was never routed."""
    return "" if letters == topology.UNROUTED else letters.removesuffix(topology.dead_letters(""))
