"""Turns what SQLAlchemy and the drivers raise into our errors."""

import contextlib
from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy import exc

from gemhooks.errors import LedgerUnavailable, Misconfigured

# What a PostgreSQL server says to a stranger; the driver gives no code for a failed connect.
_REFUSALS = (
    "password authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    'FATAL:  role "',
    'FATAL:  database "',
    "permission denied for database",
)


@contextlib.contextmanager
def unavailable() -> Iterator[None]:
    try:
        yield
    except (exc.DBAPIError, exc.TimeoutError) as error:
        raise LedgerUnavailable(f"The database does not answer: {reason_of(error)}") from error


@contextlib.contextmanager
def at_start(url: sa.URL) -> Iterator[None]:
    """As :func:`unavailable`, but what waiting can't heal is a person's to mend."""
    shown = url.render_as_string(hide_password=True)
    try:
        yield
    except (exc.OperationalError, exc.TimeoutError) as error:
        reason = reason_of(error)
        if any(words in reason for words in _REFUSALS):
            raise Misconfigured(f"The database at {shown} refuses us: {reason}") from error
        raise LedgerUnavailable(f"The database at {shown} does not answer: {reason}") from error
    except exc.DBAPIError as error:  # not a database file, an unknown option, no rights
        raise Misconfigured(f"{shown} cannot be used: {reason_of(error)}") from error


def reason_of(error: exc.SQLAlchemyError) -> str:
    """Return the driver's first line; the lines below may quote rows."""
    cause = error.orig if isinstance(error, exc.DBAPIError) else error
    lines = str(cause).strip().splitlines()
    return lines[0][:200] if lines else type(cause).__name__
