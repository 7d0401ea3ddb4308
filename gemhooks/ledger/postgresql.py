"""PostgreSQL: pooled connections, one statement a transaction."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event

from gemhooks.errors import Misconfigured
from gemhooks.ledger.failures import at_start, unavailable

T = TypeVar("T")

READ_ONLY = "25006"  # PostgreSQL's code for a write that was asked of a replica
MIGRATION_LOCK = 0x67656D68  # "gemh": any number that no other program of the database uses

# A server that vanished without a word must be noticed while a message still has its lease.
_LIVELINESS = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
    "application_name": "gemhooks",
    "client_encoding": "utf8",  # of a server set up without one, psycopg would give us bytes
}
# A statement that hangs, on a lock or a sick disk, must not hold a handler's thread for ever.
_BOUNDS = (
    "SET statement_timeout = '15s'",
    "SET lock_timeout = '10s'",
    "SET idle_in_transaction_session_timeout = '60s'",
    # Our statements are made for it; stricter ones, where they are the default, fail at random.
    "SET default_transaction_isolation = 'read committed'",
)
_MIGRATING = ("SET LOCAL statement_timeout = 0", "SET LOCAL lock_timeout = '60s'")


class PostgresDatabase:
    """A Database on a PostgreSQL server."""

    def __init__(self, url: sa.URL) -> None:
        self._engine = _engine(url)
        try:
            with at_start(url), self._engine.connect() as connection:
                connection.execute(sa.text("SELECT 1"))
        except BaseException:
            self.close()
            raise

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        with unavailable(), self._engine.connect() as connection:
            return work(connection)

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        return self.read(work)  # autocommit: durable when the statement returns

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        engine = self._engine.execution_options(isolation_level="READ COMMITTED")
        with unavailable(), engine.begin() as connection:
            for statement in _MIGRATING:
                connection.exec_driver_sql(statement)
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MIGRATION_LOCK)))
            yield connection

    def close(self) -> None:
        self._engine.dispose()


def _engine(url: sa.URL) -> sa.Engine:
    try:
        engine = sa.create_engine(
            url,
            isolation_level="AUTOCOMMIT",
            pool_pre_ping=True,  # after a restart of the server the pool's connections are dead
            pool_size=10,
            max_overflow=20,
            pool_timeout=10,
            hide_parameters=True,
            connect_args=_connect_args(url),
        )
    except ModuleNotFoundError:
        raise Misconfigured(
            "PostgreSQL needs its driver: pip install 'gemhooks[postgresql]'."
        ) from None
    event.listen(engine, "connect", _bound)
    event.listen(engine, "handle_error", _look_for_the_primary)
    return engine


def _connect_args(url: sa.URL) -> dict[str, Any]:
    """Prepared statements are for who asks for them: behind a pooler of transactions one
    connection's are another one's, and calls fail."""
    own = {name: value for name, value in _LIVELINESS.items() if name not in url.query}
    asked = url.query.get("prepare_threshold", "")
    return own | {"prepare_threshold": int(str(asked)) if str(asked).isdecimal() else None}


def _look_for_the_primary(failure: sa.engine.ExceptionContext) -> None:
    """After a failover our connections may live on, to what is a replica now: connect anew."""
    if getattr(failure.original_exception, "sqlstate", "") == READ_ONLY:
        failure.is_disconnect = True


def _bound(connection: Any, _record: Any) -> None:
    """By statements, not by start-up options, which poolers in between refuse."""
    was, connection.autocommit = connection.autocommit, True
    for statement in _BOUNDS:
        connection.execute(statement)
    connection.autocommit = was
