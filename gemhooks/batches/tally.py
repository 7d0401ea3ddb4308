"""Counts the rows of a batch as they come, and says what they amount to."""

from collections import Counter
from typing import Any

from pydantic import BaseModel

from gemhooks.batches.keys import Keys
from gemhooks.batches.lines import Lines
from gemhooks.batches.rows import UNSPECIFIED, Outcome, Row, read_row

MOST_KINDS = 50  # of errors, or of reasons, that are told apart


class TokenCount(BaseModel, frozen=True):
    kind: str
    modality: str
    tokens: int


class Summary(BaseModel, frozen=True):
    """What a batch's results are. Sizes are bytes."""

    id: str
    outcome: str  # succeeded, partly_failed, all_failed, no_output, or the job's own state
    state: str  # what Gemini says of the job
    model: str = ""
    display_name: str = ""
    requested: int | None = None
    rows: int = 0
    ok: int = 0
    failed: int = 0
    empty: int = 0
    malformed: int = 0
    keyless: int = 0  # rows that do not say whose answer they are
    duplicates: int = 0  # rows whose key came before
    missing: int = 0  # requests without any row
    surplus: int = 0  # rows that nobody asked for
    errors: dict[str, int] = {}  # rows by the code of their error
    reasons: dict[str, int] = {}  # empty rows by why, in Gemini's word
    tokens: tuple[TokenCount, ...] = ()
    size: int = 0
    error_code: str = ""
    error_message: str = ""
    created: str = ""
    ended: str = ""


class Tally:
    """Fed with a result file in pieces, or row by row; memory does not grow with it."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._keys = Keys()
        self._outcomes = Counter[Outcome]()
        self._codes = Counter[str]()
        self._reasons = Counter[str]()
        self._tokens = Counter[tuple[str, str]]()
        self._keyless = 0
        self.size = 0

    def feed(self, chunk: bytes) -> None:
        self.size += len(chunk)
        for line in self._lines.feed(chunk):
            self.count(read_row(line))

    def end(self) -> None:
        """The file is whole: its last line may lack an end."""
        for line in self._lines.end():
            self.count(read_row(line))

    def count(self, row: Row) -> None:
        self._outcomes[row.outcome] += 1
        if row.key is not None:
            self._keys.add(row.key)
        elif row.outcome is not Outcome.MALFORMED:
            self._keyless += 1
        if row.outcome is Outcome.FAILED:
            _count(self._codes, str(row.code))
        elif row.outcome is Outcome.EMPTY:
            _count(self._reasons, row.reason or UNSPECIFIED)
        for kind, modality, count in row.tokens:
            self._tokens[kind, modality] += count

    @property
    def rows(self) -> int:
        return self._outcomes.total()

    @property
    def ok(self) -> int:
        return self._outcomes[Outcome.OK]

    def counts(self, requested: int | None) -> dict[str, Any]:
        """The fields of a Summary that rows decide."""
        told = self._keys.distinct + self._keyless
        return {
            "requested": requested,
            "rows": self.rows,
            **{outcome.value: self._outcomes[outcome] for outcome in Outcome},
            "keyless": self._keyless,
            "duplicates": self._keys.again,
            "missing": max(0, requested - told) if requested is not None else 0,
            "surplus": max(0, told - requested) if requested is not None else 0,
            "errors": dict(self._codes.most_common()),
            "reasons": dict(self._reasons.most_common()),
            "tokens": tuple(
                TokenCount(kind=kind, modality=modality, tokens=count)
                for (kind, modality), count in sorted(self._tokens.items())
            ),
            "size": self.size,
        }

    def outcome(self, requested: int | None) -> str:
        """What a job that ended well really brought."""
        if not self.rows:
            return "no_output"
        if not self.ok:
            return "all_failed"
        whole = self.ok == self.rows and (
            requested is None or requested <= self._keys.distinct + self._keyless
        )
        return "succeeded" if whole else "partly_failed"

    def close(self) -> None:
        self._keys.close()


def _count(kinds: Counter[str], kind: str) -> None:
    known = kind in kinds or len(kinds) < MOST_KINDS
    kinds[kind[:40] if known else "other"] += 1
