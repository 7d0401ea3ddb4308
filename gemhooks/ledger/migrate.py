"""Brings the database to this release's tables; many processes may do so at once."""

import threading
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util import CommandError

from gemhooks.errors import Misconfigured
from gemhooks.ledger.database import Database

_ONE_AT_A_TIME = threading.Lock()  # alembic keeps its state in globals


def migrate(database: Database) -> None:
    """Wait for whoever migrates now, then do what is left to do, all or nothing."""
    with _ONE_AT_A_TIME, database.transaction() as connection:
        _upgrade(connection)


def _upgrade(connection: sa.Connection) -> None:
    config = Config()
    config.set_main_option(
        "script_location", str(Path(__file__).parent / "migrations").replace("%", "%%")
    )
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise Misconfigured(
            f"The database was made by another release of gemhooks: {error}."
        ) from error
