"""``make bench-ledger``: what an event costs the ledger, with a thousand rows in it and a million.

Both databases in turn; the rows' keys are as random as webhook-ids are.
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import sqlalchemy as sa
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench import figures
from bench.scale import ledger_rate
from bench.stats import Ratio, ratio
from gemhooks.ledger import open_ledger
from tests.services.postgresql import PostgresServer

ROWS = (1_000, 10_000, 100_000, 1_000_000)
STEP = 100_000  # rows of one statement, so that PostgreSQL does not take it for one that hangs
# Keys of 32 random digits, by what each database has.
FILL = {
    "SQLite": """
        INSERT INTO handled (queue, key, state, owner, lease_until, starts, first_at, done_at)
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
        SELECT 'bench', lower(hex(randomblob(16))), 'done', '', 0, 0, :now, :now FROM n""",
    "PostgreSQL": """
        INSERT INTO handled (queue, key, state, owner, lease_until, starts, first_at, done_at)
        SELECT 'bench', gen_random_uuid(), 'done', '', 0, 0, :now, :now
        FROM generate_series(1, :count)""",
}
console = Console()

Costs = dict[str, dict[int, list[float]]]  # microseconds of an event, by database and rows


@dataclass(frozen=True)
class Filled:
    """A ledger with so many rows."""

    kind: str
    rows: int
    url: str

    def fill(self) -> None:
        with closing(open_ledger(self.url)) as ledgers:
            for begun in range(0, self.rows, STEP):
                count = min(STEP, self.rows - begun)
                filling = sa.text(FILL[self.kind]).bindparams(count=count, now=time.time())
                ledgers.database.write(partial(sa.Connection.execute, statement=filling))


@contextmanager
def databases(most: int) -> Iterator[list[Filled]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        server = stack.enter_context(PostgresServer())
        found = []
        for rows in filter(lambda each: each <= most, ROWS):
            found.append(Filled("SQLite", rows, f"sqlite:///{folder}/{rows}.db"))
            found.append(Filled("PostgreSQL", rows, stack.enter_context(server.database())))
        for each in found:
            each.fill()
        yield found


def measure(found: list[Filled], options: argparse.Namespace) -> Costs:
    """From the claim of an event to its mark, in 16 threads of one process; all in turn."""
    costs: Costs = {each.kind: {} for each in found}
    for each in track(found * options.repeat, "measuring", console=Console(stderr=True)):
        cost = 1e6 / ledger_rate(each.url, 1, options.seconds)
        costs[each.kind].setdefault(each.rows, []).append(cost)
    return costs


def main() -> None:
    options = _options()
    with databases(options.rows) as found:
        costs = measure(found, options)
    report(costs)
    write_json(costs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS[-1], help="at most")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2, help="of each run of load")
    return parser.parse_args()


def report(costs: Costs) -> None:
    table = Table("rows", *(f"{rows:,}" for rows in ROWS), "the most by the fewest")
    for kind, by_rows in costs.items():
        seen = [f"{median(by_rows[rows]):.0f} us" if rows in by_rows else "" for rows in ROWS]
        table.add_row(kind, *seen, str(growth(by_rows)))
    console.print(table)


def growth(by_rows: dict[int, list[float]]) -> Ratio:
    """An event's cost with the most rows by that with the fewest: 1 is flat."""
    return ratio(by_rows[max(by_rows)], by_rows[min(by_rows)])


def write_json(costs: Costs) -> None:
    found = {
        "us_per_event": {
            kind: {rows: median(seen) for rows, seen in by_rows.items()}
            for kind, by_rows in costs.items()
        },
        "ratios": {kind: growth(by_rows).middle for kind, by_rows in costs.items()},
    }
    figures.keep("ledger", found, console)


if __name__ == "__main__":
    main()
