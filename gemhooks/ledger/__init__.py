"""What was handled, what runs, what was fetched: in SQLite or PostgreSQL."""

from dataclasses import dataclass

from gemhooks.ledger.calls import Calls
from gemhooks.ledger.continuations import Continuations
from gemhooks.ledger.database import Database, connect
from gemhooks.ledger.handled import LEASE, DatabaseLedger
from gemhooks.ledger.jobs import KINDS, Job, Jobs
from gemhooks.ledger.lookups import Lookups
from gemhooks.ledger.migrate import migrate
from gemhooks.ledger.null import NullLedger
from gemhooks.ledger.results import Result, Results

__all__ = [
    "KINDS",
    "Calls",
    "Continuations",
    "DatabaseLedger",
    "Job",
    "Jobs",
    "Ledgers",
    "Lookups",
    "NullLedger",
    "Result",
    "Results",
    "open_ledger",
]


@dataclass(frozen=True, slots=True)
class Ledgers:
    """All that one database remembers."""

    handled: DatabaseLedger
    jobs: Jobs
    lookups: Lookups
    results: Results
    calls: Calls
    continuations: Continuations
    database: Database

    def close(self) -> None:
        """Write what waits, then disconnect; open claims end with their lease."""
        self.handled.close()
        self.database.close()


def open_ledger(url: str, *, lease: float = LEASE) -> Ledgers:
    """Connect to *url* and bring its tables up to date.

    Raises Misconfigured where a person must act, LedgerUnavailable while the database is away.
    """
    database = connect(url)
    try:
        migrate(database)
    except BaseException:
        database.close()
        raise
    return Ledgers(
        handled=DatabaseLedger(database, lease=lease),
        jobs=Jobs(database),
        lookups=Lookups(database),
        results=Results(database),
        calls=Calls(database),
        continuations=Continuations(database),
        database=database,
    )
