"""The input for just those rows of a batch that need another try."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gemhooks.batches.keys import Keys
from gemhooks.batches.rows import Outcome, read_row

# google.rpc codes of requests that would fail again just the same.
HOPELESS = frozenset(
    {
        *(3, 5, 7, 9, 11, 12, 16),
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "PERMISSION_DENIED",
        "FAILED_PRECONDITION",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "UNAUTHENTICATED",
    }
)


@dataclass
class Retrying:
    """Chooses among requests by what came of each; the counts are of requests."""

    everything: bool = False  # also what was refused for good
    again: int = 0
    answered: int = 0
    hopeless: int = 0
    keyless: int = 0  # among those that are sent again: nobody can tell what came of them
    _answered: Keys = field(default_factory=Keys)
    _hopeless: Keys = field(default_factory=Keys)

    def results(self, lines: Iterable[bytes]) -> None:
        """Take in what the batch brought: the lines of its rows.jsonl."""
        for line in lines:
            row = read_row(line)
            if row.key is not None and row.outcome is Outcome.OK:
                self._answered.add(row.key)
            elif row.key is not None and row.code in HOPELESS:
                self._hopeless.add(row.key)

    def requests(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Those *lines* of the batch's input that need another try, as they are."""
        for line in lines:
            if line.strip() and self._needs_another(line):
                self.again += 1
                yield line

    def _needs_another(self, line: bytes) -> bool:
        key = read_row(line).key
        if key is None:
            self.keyless += 1
            return True
        if key in self._answered:
            self.answered += 1
            return False
        if not self.everything and key in self._hopeless:
            self.hopeless += 1
            return False
        return True
