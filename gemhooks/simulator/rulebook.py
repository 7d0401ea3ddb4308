"""Which of the rules of misbehaviour hits a request."""

import random
import threading
from collections.abc import Callable, Iterator, Sequence

from gemhooks.simulator.faults import Rule


class Rulebook:
    """The first rule that fits, is not spent, and whose dice say so, hits."""

    def __init__(self, rules: Sequence[Rule], seed: int) -> None:
        self._rules = rules
        self._seen = [0] * len(rules)
        self._lock = threading.Lock()
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret

    def hit(self, line: str, body: Callable[[], str] = str) -> Rule | None:
        """Return the rule for the request whose method and path are *line*."""
        if not self._rules:
            return None
        with self._lock:
            return next((rule for rule in self._fitting(line, body)), None)

    def _fitting(self, line: str, body: Callable[[], str]) -> Iterator[Rule]:
        for number, rule in enumerate(self._rules):
            if rule.when not in line or (rule.containing and rule.containing not in body()):
                continue
            self._seen[number] += 1
            turn = self._seen[number] - rule.skip
            is_due = turn > 0 and (rule.first is None or turn <= rule.first)
            if is_due and self._random.random() < rule.rate:
                yield rule
