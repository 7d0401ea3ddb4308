"""Reads the database's URL."""

import sqlalchemy as sa
from sqlalchemy import exc

from gemhooks.errors import Misconfigured

EXAMPLES = "sqlite:///gemhooks.db or postgresql://user@host/database"

_DRIVERS = {
    "sqlite": "sqlite+pysqlite",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}


def parse(url: str) -> sa.URL:
    """Return the URL with our driver's name; errors never show it, for it may have a password."""
    try:
        parsed = sa.make_url(url)
    except (exc.ArgumentError, ValueError):
        raise Misconfigured(f"GEMHOOKS_DATABASE_URL is malformed: use {EXAMPLES}.") from None
    driver = _DRIVERS.get(parsed.drivername)
    if driver is None:
        raise Misconfigured(f"GEMHOOKS_DATABASE_URL can't begin so: use {EXAMPLES}.")
    return _with_file(parsed.set(drivername=driver))


def _with_file(url: sa.URL) -> sa.URL:
    if url.drivername.startswith("sqlite") and url.database in (None, "", ":memory:"):
        raise Misconfigured("GEMHOOKS_DATABASE_URL names no file: use sqlite:///gemhooks.db.")
    return url
