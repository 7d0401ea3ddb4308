"""Whether the database is there and has this release's tables, seen without changing it."""

from enum import StrEnum
from pathlib import Path

import sqlalchemy as sa
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from gemhooks.ledger import urls
from gemhooks.ledger.database import connect

MIGRATIONS = Path(__file__).parent / "migrations"


class State(StrEnum):
    CURRENT = "current"
    EMPTY = "empty"  # made at the first start
    OLDER = "older"  # brought up to date at the next start
    NEWER = "newer"  # another release of gemhooks made it
    READ_ONLY = "read-only"  # a replica, say: nothing can be handled


def inspect(url: str) -> State:
    """Raises Misconfigured where a person must act, LedgerUnavailable while it is away."""
    parsed = urls.parse(url)
    if parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").exists():
        return State.EMPTY  # connecting would make it
    database = connect(url)
    try:
        return database.read(_state)
    finally:
        database.close()


def _state(connection: sa.Connection) -> State:
    if _is_read_only(connection):
        return State.READ_ONLY
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    found = MigrationContext.configure(connection).get_current_revision()
    if found is None:
        return State.EMPTY
    if found == scripts.get_current_head():
        return State.CURRENT
    known = {each.revision for each in scripts.walk_revisions()}
    return State.OLDER if found in known else State.NEWER


def _is_read_only(connection: sa.Connection) -> bool:
    if connection.dialect.name != "postgresql":
        return False
    return bool(connection.scalar(sa.text("SHOW transaction_read_only")) == "on")
