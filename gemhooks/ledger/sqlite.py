"""SQLite: one file, one writer thread that joins concurrent writes into one commit."""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event

from gemhooks.errors import Misconfigured
from gemhooks.ledger.failures import at_start, unavailable
from gemhooks.ledger.writer import Writer

T = TypeVar("T")

BUSY_SECONDS = 10  # how long another process's transaction is waited for
_WRITES = "gemhooks_writes"


class SqliteDatabase:
    """A Database in one file of this machine."""

    def __init__(self, url: sa.URL) -> None:
        _make_folder(url)
        self._engine = _engine(url)
        self._writer = Writer(self.transaction)
        try:
            with at_start(url), self._engine.connect() as connection:
                connection.execute(sa.text("SELECT count(*) FROM sqlite_master"))
        except BaseException:
            self.close()
            raise

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        with unavailable(), self._engine.connect() as connection:
            return work(connection)

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        return self._writer.run(work)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        engine = self._engine.execution_options(**{_WRITES: True})
        with unavailable(), engine.begin() as connection:
            yield connection

    def close(self) -> None:
        self._writer.close()
        self._engine.dispose()


def _make_folder(url: sa.URL) -> None:
    folder = Path(url.database or "").parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Misconfigured(f"The database's folder {folder}: {error.strerror}.") from None


def _engine(url: sa.URL) -> sa.Engine:
    engine = sa.create_engine(url, hide_parameters=True, connect_args={"timeout": BUSY_SECONDS})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not begin transactions: _begin does
    _switch_to_wal(connection)
    connection.execute("PRAGMA synchronous=FULL")  # what is done stays done if the power fails


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Try until the busy timeout: of several first openers, SQLite tells all but one "locked"."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _begin(connection: sa.Connection) -> None:
    # A deferred transaction that reads and then writes fails "locked" whatever the timeout.
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
