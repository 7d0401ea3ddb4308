"""Medians and paired ratios: the machine drifts, so only what ran side by side is compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Ratio:
    """Of pairs run side by side: the median, the least and the greatest."""

    middle: float
    least: float
    greatest: float

    def __str__(self) -> str:
        return f"{self.middle:.2f} [{self.least:.2f}-{self.greatest:.2f}]"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Ours by theirs, pair by pair."""
    pairs = [a / b for a, b in zip(ours, theirs, strict=True) if b]
    return Ratio(median(pairs), min(pairs), max(pairs))
