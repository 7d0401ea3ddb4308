"""The crash matrix: whatever a worker dies over, an effect happens once and the model is answered.

``make crash-matrix`` tries every step, both kinds of functions, one call and three, on SQLite and
on PostgreSQL; the suite a part of it.
"""

import os
from collections.abc import Callable
from pathlib import Path

from tests.workers.crashes.matrix import Cell, Ended, cells, run_all
from tests.workers.crashes.steps import Step

AT_ONCE = 8
WHOLE = os.environ.get("GEMHOOKS_TEST_CRASHES") == "all"
EFFECTS = ("once", "idempotent")
EVERY = cells((1, 3), EFFECTS)
# Where one call is all there is, these steps leave no doubt about it.
CERTAIN = frozenset(
    {
        Step.BEFORE_THE_CLAIM,
        Step.AFTER_THE_RECORD,
        Step.BEFORE_THE_CONTINUATION,
        Step.AFTER_THE_CONTINUATION,
        Step.BEFORE_THE_ACK,
    }
)


def judge(ended: Ended) -> None:
    """What must be true of every cell."""
    cell = ended.cell
    names = {f"call-{number}" for number in range(cell.calls)}
    assert ended.successors == 1, f"{cell}: continued {ended.successors} times"
    assert len(ended.answered) == cell.calls, f"{cell}: {ended.answered}"
    assert ended.effects.keys() <= names, cell
    if cell.effect == "idempotent":
        assert ended.effects.keys() == names, f"{cell}: {ended.effects}"
        assert not ended.parked, f"{cell}: nothing is left to a person"
        return
    assert all(times == 1 for times in ended.effects.values()), f"{cell}: {ended.effects}"
    told = {f"did {name}" for name in ended.effects} - {f"did {n}" for n in _names(ended)}
    assert told <= set(ended.answered), f"{cell}: {ended.answered}"
    if cell.calls == 1:
        assert bool(ended.parked) is (cell.step not in CERTAIN), f"{cell}: {ended.parked}"


def _names(ended: Ended) -> set[str]:
    """The calls that a person settled."""
    return {each.arguments.split('"')[3] for each in ended.parked}


def test_a_worker_may_die_at_any_step_on_sqlite(tmp_path: Path) -> None:
    some = EVERY if WHOLE else cells((1,), ("once",)) + cells((3,), ("idempotent",))

    for ended in run_all(some, tmp_path, _file_in(tmp_path), at_once=AT_ONCE):
        judge(ended)


def test_a_worker_may_die_at_any_step_on_postgresql(tmp_path: Path, postgres_url: str) -> None:
    some = EVERY if WHOLE else [Cell(Step.AFTER_THE_EFFECT, each, 3) for each in EFFECTS]

    for ended in run_all(some, tmp_path, lambda _cell: postgres_url, at_once=AT_ONCE):
        judge(ended)


def _file_in(folder: Path) -> Callable[[Cell], str]:
    return lambda cell: f"sqlite:///{folder}/{str(cell).replace(', ', '-').replace(' ', '-')}.db"
