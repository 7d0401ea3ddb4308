"""Brings the database to this release's tables; many processes may do so at once."""

import threading
from pathlib import Path

import sqlalchemy as sa

from gemhooks.errors import Misconfigured
from gemhooks.ledger.database import Database
from gemhooks.ledger.fresh import create

_MIGRATIONS = Path(__file__).parent / "migrations"
_ONE_AT_A_TIME = threading.Lock()  # alembic keeps its state in globals


def migrate(database: Database) -> None:
    """Wait for whoever migrates now, then do what is left to do, all or nothing."""
    newest = max((_MIGRATIONS / "versions").glob("r*.py")).name[1:5]
    if database.read(_versions) == [newest]:
        return
    with _ONE_AT_A_TIME, database.transaction() as connection:
        if _versions(connection) is None:
            create(connection, newest)
        else:
            upgrade(connection)


def _versions(connection: sa.Connection) -> list[str] | None:
    """None of a database that is new to us."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return list(connection.scalars(sa.text("SELECT version_num FROM alembic_version")))


def upgrade(connection: sa.Connection) -> None:
    """Run the migrations that are still to be run."""
    from alembic import command  # noqa: PLC0415 - 10 MiB, and nearly always there is nothing to do
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise Misconfigured(
            f"The database was made by another release of gemhooks: {error}."
        ) from error
