"""Exchanges, queues, bindings and delays as data: the one place that names them.

The names are public; a change is an "Upgrading" line in the CHANGELOG.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

EVENTS = "gemhooks.events"  # topic; routing key = Gemini's event type
RESULTS = "gemhooks.results"  # topic; what the built-in workers produce
RETURN = "gemhooks.return"  # direct; a retry comes back to its queue by the queue's name
UNROUTED = "gemhooks.unrouted"  # alternate exchange, and the queue behind it

RUNGS = (1, 5, 15, 60, 300, 900, 3600, 21600)  # seconds; the retry ladder
LITTLE_MORE = 1.25
UNROUTED_MAX_LENGTH = 1_000_000
UNROUTED_TTL = 14 * 24 * 3600  # seconds
# Attempts are ours to count: 4.0 would drop a message after 20 looks, and -1 is unknown to 3.10.
DELIVERY_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True)
class Queue:
    """One consumer's queue and what lands in it: (exchange, routing pattern) pairs."""

    name: str
    bindings: tuple[tuple[str, str], ...]

    @property
    def dead_letters(self) -> str:
        return dead_letters(self.name)


def queue_name(name: str) -> str:
    """``answers`` is the queue ``gemhooks.answers``."""
    return name if name.startswith("gemhooks.") else f"gemhooks.{name}"


def dead_letters(queue: str) -> str:
    return f"{queue}.dlq"


def retry_name(rung: int) -> str:
    """The fanout exchange, and the queue behind it, of one rung of the ladder."""
    return f"gemhooks.retry.{rung}s"


def first_hop(seconds: float) -> tuple[int, int]:
    """Which rung a wait of *seconds* starts on, and how many seconds are left after it.

    It starts on the first one that is long enough; what is little more than a rung, as jitter makes
    it, waits there and then for the little.

    >>> first_hop(4), first_hop(4000), first_hop(30_000)
    ((5, 0), (3600, 400), (21600, 8400))
    """
    for rung in RUNGS:
        if seconds <= rung:
            return rung, 0
        if seconds <= rung * LITTLE_MORE:
            return rung, math.ceil(seconds - rung)
    return RUNGS[-1], math.ceil(seconds - RUNGS[-1])


# All of them, those too that Gemini invents tomorrow, so that each leaves its record.
INTERACTIONS = Queue("gemhooks.interactions", ((EVENTS, "interaction.*"),))
FUNCTIONS = Queue(
    "gemhooks.functions",
    # The second is ours: look again, a person decided or another worker saw that it waits.
    ((EVENTS, "interaction.requires_action"), (RESULTS, "interaction.waiting")),
)
BATCHES = Queue("gemhooks.batches", ((EVENTS, "batch.*"),))
VIDEOS = Queue("gemhooks.videos", ((EVENTS, "video.*"),))

# Everyone, the receiver too, declares these: an event before the first worker waits in place.
BUILT_IN = (INTERACTIONS, FUNCTIONS, BATCHES, VIDEOS)


LONGEST_NAME = 255  # bytes; AMQP's shortstr


def unfit(queue: Queue) -> str:
    """Why that can be no consumer's queue, to be read after its name; empty where it can."""
    if queue.name == queue_name(""):
        return "has no name"
    if queue.name == UNROUTED or queue.name.startswith("gemhooks.retry.") or _is_dead(queue.name):
        return "is gemhooks' own: what waits or was given up lies there"
    if len(queue.dead_letters.encode()) > LONGEST_NAME:
        return "is too long"
    built_in = next((each for each in BUILT_IN if each.name == queue.name), queue)
    if not _takes_the_same(queue, built_in):
        return "is the built-in workers', who would lose what yours does not take: choose another"
    return ""


def _is_dead(name: str) -> bool:
    return name.endswith(dead_letters(""))


def _takes_the_same(queue: Queue, built_in: Queue) -> bool:
    """All that lands in *built_in*, and nothing besides."""
    covered = all(
        any(exchange == theirs and matches(pattern, key) for theirs, pattern in built_in.bindings)
        for exchange, key in queue.bindings
    )
    return covered and set(built_in.bindings) <= set(queue.bindings)


def matches(pattern: str, routing_key: str) -> bool:
    """AMQP's topic rule: ``*`` is one word, ``#`` is any number of words.

    >>> matches("batch.*", "batch.succeeded"), matches("#", "x.y"), matches("a.#.c", "a.c")
    (True, True, True)
    """
    # All places in the pattern at once: one after the other takes for ever with several #.
    parts = pattern.split(".")
    reached = _past_hashes({0}, parts)
    for word in routing_key.split("."):
        fits = [at for at in reached if at < len(parts) and parts[at] in ("#", "*", word)]
        reached = _past_hashes({at if parts[at] == "#" else at + 1 for at in fits}, parts)
    return len(parts) in reached


def _past_hashes(reached: set[int], parts: list[str]) -> set[int]:
    """Also where a ``#`` is no word at all."""
    for at, part in enumerate(parts):
        if part == "#" and at in reached:
            reached.add(at + 1)
    return reached


def queue_arguments() -> dict[str, str | int]:
    return {"x-queue-type": "quorum", "x-delivery-limit": DELIVERY_LIMIT}


def rung_arguments(rung: int) -> dict[str, str | int]:
    """Without at-least-once, killing a node lost half of the waiting messages (tried)."""
    return {
        "x-queue-type": "quorum",
        "x-message-ttl": rung * 1000,
        "x-dead-letter-exchange": RETURN,
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
        "x-delivery-limit": DELIVERY_LIMIT,
    }


def unrouted_arguments() -> dict[str, str | int]:
    return {
        "x-queue-type": "quorum",
        "x-max-length": UNROUTED_MAX_LENGTH,
        "x-message-ttl": UNROUTED_TTL * 1000,
        "x-delivery-limit": DELIVERY_LIMIT,
    }


def all_arguments(queues: Iterable[str]) -> dict[str, dict[str, str | int]]:
    """The arguments of all our queues and of the consumers' *queues*, by name."""
    found: dict[str, dict[str, str | int]] = {UNROUTED: unrouted_arguments()}
    found |= {retry_name(rung): rung_arguments(rung) for rung in RUNGS}
    for queue in queues:
        found |= {queue: queue_arguments(), dead_letters(queue): queue_arguments()}
    return found


def exchanges() -> Iterator[tuple[str, str, dict[str, str]]]:
    """Name, type and arguments of each exchange, in an order that can be declared."""
    yield UNROUTED, "fanout", {}
    yield EVENTS, "topic", {"alternate-exchange": UNROUTED}
    yield RESULTS, "topic", {}
    yield RETURN, "direct", {"alternate-exchange": UNROUTED}
    for rung in RUNGS:
        yield retry_name(rung), "fanout", {}


OURS = frozenset(name for name, _, _ in exchanges())
