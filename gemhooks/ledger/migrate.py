"""Brings the database to this release's tables; many processes may do so at once."""

import threading
from pathlib import Path

import sqlalchemy as sa

from gemhooks.errors import Misconfigured
from gemhooks.ledger.database import Database

_MIGRATIONS = Path(__file__).parent / "migrations"
_ONE_AT_A_TIME = threading.Lock()  # alembic keeps its state in globals


def migrate(database: Database) -> None:
    """Wait for whoever migrates now, then do what is left to do, all or nothing."""
    if database.read(_is_current):  # nearly always, and Alembic costs 10 MiB to import
        return
    with _ONE_AT_A_TIME, database.transaction() as connection:
        _upgrade(connection)


def _is_current(connection: sa.Connection) -> bool:
    newest = max((_MIGRATIONS / "versions").glob("r*.py")).name[1:5]
    if not sa.inspect(connection).has_table("alembic_version"):
        return False
    return connection.scalars(sa.text("SELECT version_num FROM alembic_version")).all() == [newest]


def _upgrade(connection: sa.Connection) -> None:
    from alembic import command  # noqa: PLC0415 - see migrate
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
