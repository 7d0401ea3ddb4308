"""How the simulator misbehaves, and the dice that decide when."""

import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True)
class Faults:
    """All off by default; a rate is a share of the deliveries, from 0 to 1."""

    duplicate_rate: float = 0.0  # delivered once more, correctly signed, with the same id
    bad_signature_rate: float = 0.0  # a copy that somebody else signed comes along
    lost_rate: float = 0.0  # never delivered at all
    shuffle: float = 0.0  # seconds; each delivery waits a random part of them
    not_found_first: int = 0  # the first GETs of each interaction answer 404
    rate_limit_first: int = 0  # the next requests to the API answer 429
    retry_after: int = 1  # seconds, as the 429 says
    stream_cut_after: int = 0  # events, then a stream breaks off in the middle of one
    stream_garbage_every: int = 0  # every n-th line of a stream is no JSON
    stream_pause: float = 0.0  # seconds before each event of a stream
    seed: int = 0  # the same seed, the same dice


class Kind(StrEnum):
    NORMAL = "normal"
    DUPLICATE = "duplicate"
    FORGED = "forged"
    LOST = "lost"


@dataclass(frozen=True)
class Copy:
    kind: Kind
    delay: float


class Dice:
    """Decides what becomes of each delivery."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._lock = threading.Lock()
        self._random = random.Random(faults.seed)  # noqa: S311 - repeatable, not secret

    def copies(self) -> list[Copy]:
        with self._lock:
            return [
                Copy(kind, self._random.random() * self._faults.shuffle) for kind in self._kinds()
            ]

    def _kinds(self) -> Iterator[Kind]:
        if self._happens(self._faults.lost_rate):
            yield Kind.LOST
            return
        yield Kind.NORMAL
        if self._happens(self._faults.duplicate_rate):
            yield Kind.DUPLICATE
        if self._happens(self._faults.bad_signature_rate):
            yield Kind.FORGED

    def _happens(self, rate: float) -> bool:
        return self._random.random() < rate
