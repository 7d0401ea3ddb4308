"""How the simulator misbehaves, and the dice that decide when."""

import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Rate = Annotated[float, Field(ge=0, le=1)]  # a share of the deliveries or requests
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]


class Rule(BaseModel):
    """What happens to the API's requests that it fits, instead of or besides an answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    when: str = ""  # contained in "GET /v1/interactions/v1_x"; fits everything when empty
    containing: str = ""  # in the request's body
    skip: Count = 0  # so many requests that it fits are answered as usual first
    first: Count | None = None  # then so many are hit; without it, all
    rate: Rate = 1.0  # of those, this share
    delay: Seconds = 0.0  # before anything else happens
    status: int | None = Field(default=None, ge=300, le=599)  # an error, in Google's shape
    retry_after: str | int | None = None  # its Retry-After, in either of HTTP's forms
    location: str | None = None  # where a 3xx points
    # The connection ends before or after the request is carried out, or in the middle of the
    # answer; or there, it stays open in silence.
    drop: Literal["before", "after", "middle", "stall"] | None = None
    throttle: int | None = Field(default=None, ge=1)  # bytes of the answer in a second
    body: str | None = None  # a 200 with this; {id} in it is the last part of the path


class Faults(BaseModel):
    """All off by default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Deliveries. What comes along is never sent again; its refusal is the right answer.
    lost_rate: Rate = 0.0  # never delivered at all
    duplicate_rate: Rate = 0.0  # delivered once more, correctly signed, with the same id
    bad_signature_rate: Rate = 0.0  # a copy that somebody else signed comes along
    stale_rate: Rate = 0.0  # a correctly signed copy with an old time comes along
    future_rate: Rate = 0.0  # and one with a time to come
    time_offset: int = Field(default=600, ge=0)  # seconds, of those two
    extra_signature_rate: Rate = 0.0  # two signatures of strangers stand beside the right one
    unknown_type_rate: Rate = 0.0  # an event of an unknown type comes along, correctly signed
    malformed_rate: Rate = 0.0  # a body that is no JSON comes along, correctly signed
    delay: Seconds = 0.0  # each delivery waits so long
    shuffle: Seconds = 0.0  # and a random part of this

    # The API.
    rules: tuple[Rule, ...] = ()
    not_found_first: Count = 0  # the first GETs of each resource answer 404
    not_found_for: Seconds = 0.0  # each resource answers 404 for so long after its first GET
    rate_limit_first: Count = 0  # the next requests to the API answer 429
    retry_after: Count = 1  # seconds, as the 429 says

    # The stream of an interaction.
    stream_cut_after: Count = 0  # events, then a stream breaks off in the middle of one
    stream_garbage_every: Count = 0  # every n-th line of a stream is no JSON
    stream_pause: Seconds = 0.0  # before each event of a stream

    seed: int = 0  # the same seed, the same dice

    def clock_of(self, kind: "Kind") -> int:
        """How many seconds the time of a delivery is away from now."""
        return {Kind.STALE: -self.time_offset, Kind.FUTURE: self.time_offset}.get(kind, 0)


class Kind(StrEnum):
    """What a delivery is; only the first three are Gemini's own event."""

    NORMAL = "normal"
    ACCOMPANIED = "accompanied"
    DUPLICATE = "duplicate"
    FORGED = "forged"
    STALE = "stale"
    FUTURE = "future"
    UNKNOWN = "unknown"
    MALFORMED = "malformed"
    LOST = "lost"

    @property
    def is_sent_again(self) -> bool:
        return self not in (Kind.FORGED, Kind.STALE, Kind.FUTURE)


@dataclass(frozen=True, slots=True)
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
            return [Copy(kind, self._delay()) for kind in self._kinds()]

    def happens(self, rate: float) -> bool:
        with self._lock:
            return self._happens(rate)

    def _delay(self) -> float:
        return self._faults.delay + self._random.random() * self._faults.shuffle

    def _kinds(self) -> Iterator[Kind]:
        faults = self._faults
        if self._happens(faults.lost_rate):
            yield Kind.LOST
            return
        yield Kind.ACCOMPANIED if self._happens(faults.extra_signature_rate) else Kind.NORMAL
        rates = (
            (Kind.DUPLICATE, faults.duplicate_rate),
            (Kind.FORGED, faults.bad_signature_rate),
            (Kind.STALE, faults.stale_rate),
            (Kind.FUTURE, faults.future_rate),
            (Kind.UNKNOWN, faults.unknown_type_rate),
            (Kind.MALFORMED, faults.malformed_rate),
        )
        yield from (kind for kind, rate in rates if self._happens(rate))

    def _happens(self, rate: float) -> bool:
        return rate > 0 and self._random.random() < rate
