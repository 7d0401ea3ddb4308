"""Where a worker is killed: parts that do as the real ones do, and die at one step."""

import os
import signal
import threading
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gemhooks.functions import Call, Functions, Result
from gemhooks.functions.records import CallClaim, CallLedger, CallRecord, Terms
from gemhooks.gemini import FetchedInteraction
from gemhooks.messages import Claimed, Ledger
from workers.ports import InteractionReader, InteractionStarter

TIMEOUT = 3.0  # seconds; of a function, which needs none


class Step(StrEnum):
    """The moments of the matrix, in their order."""

    NEVER = "never"
    BEFORE_THE_CLAIM = "before the claim"
    AFTER_THE_CLAIM = "after the claim"
    IN_THE_EFFECT = "in the effect"
    AFTER_THE_EFFECT = "after the effect"
    AFTER_THE_RECORD = "after the record"
    BEFORE_THE_CONTINUATION = "before the continuation"
    AFTER_THE_CONTINUATION = "after the continuation"
    BEFORE_THE_ACK = "before the ack"


@dataclass
class Killer:
    """Kills this process at the *number*-th time that *step* is reached."""

    step: Step
    number: int
    _left: int = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._left = self.number

    def at(self, step: Step) -> None:
        if step is not self.step:
            return
        with self._lock:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class DyingCalls:
    """A CallLedger."""

    real: CallLedger
    killer: Killer

    def claim(self, interaction_id: str, call: Call, terms: Terms) -> CallClaim:
        self.killer.at(Step.BEFORE_THE_CLAIM)
        claim = self.real.claim(interaction_id, call, terms)
        self.killer.at(Step.AFTER_THE_CLAIM)
        return claim

    def record(
        self, interaction_id: str, call: Call, result: Result, *, result_url: str = ""
    ) -> CallRecord:
        record = self.real.record(interaction_id, call, result, result_url=result_url)
        self.killer.at(Step.AFTER_THE_RECORD)
        return record


@dataclass(frozen=True)
class DyingInteractions:
    """Gemini's interactions, to look at and to start."""

    real: Any  # an InteractionReader and an InteractionStarter
    killer: Killer

    def get(self, interaction_id: str, /) -> FetchedInteraction:
        reader: InteractionReader = self.real
        return reader.get(interaction_id)

    def create(self, **wanted: Any) -> FetchedInteraction:
        self.killer.at(Step.BEFORE_THE_CONTINUATION)
        starter: InteractionStarter = self.real
        created = starter.create(**wanted)
        self.killer.at(Step.AFTER_THE_CONTINUATION)
        return created


@dataclass(frozen=True)
class DyingLedger:
    """What marks a message as handled, right before it is acknowledged."""

    real: Ledger
    killer: Killer

    def claim(self, queue: str, key: str, *, redelivered: bool) -> Claimed:
        return self.real.claim(queue, key, redelivered=redelivered)

    def claim_new(self, queue: str, *keys: str) -> list[Claimed | None]:
        return self.real.claim_new(queue, *keys)

    def holds(self, queue: str, key: str) -> bool:
        return self.real.holds(queue, key)

    def done(self, queue: str, *keys: str) -> None:
        if queue == "gemhooks.functions":
            self.killer.at(Step.BEFORE_THE_ACK)
        self.real.done(queue, *keys)

    def release(self, queue: str, *keys: str, ended: bool = True) -> None:
        self.real.release(queue, *keys, ended=ended)


def functions(killer: Killer, effects: str) -> Functions:
    """Functions whose one effect is a line in the file *effects*."""
    found = Functions()

    def act(name: str) -> str:
        killer.at(Step.IN_THE_EFFECT)
        with open(effects, "a") as file:  # noqa: PTH123 - one write, appended whole
            file.write(f"{name}\n")
        killer.at(Step.AFTER_THE_EFFECT)
        return f"did {name}"

    @found.function(timeout=TIMEOUT)
    def once(name: str) -> str:
        return act(name)

    @found.function(timeout=TIMEOUT, effect="idempotent")
    def idempotent(name: str) -> str:
        return act(name)

    return found
