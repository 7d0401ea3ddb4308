"""What is seen of a broker that is looked at."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueueState:
    """How many messages and consumers a queue has; None where nobody can tell."""

    messages: int
    consumers: int | None


@dataclass(frozen=True, slots=True)
class Inspection:
    """*missing* names exchanges and queues; *different* are sentences; *processes* consume."""

    queues: Mapping[str, QueueState]
    missing: tuple[str, ...] = ()
    different: tuple[str, ...] = ()
    arguments_checked: bool = False
    processes: int | None = None
