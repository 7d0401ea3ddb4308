"""``gemhooks db``: the ledger's tables."""

import time
from typing import Annotated

import typer

from gemhooks.errors import LedgerUnavailable

app = typer.Typer(help="The ledger's tables.", no_args_is_help=True)

PAUSE = 0.5  # seconds between two tries


@app.callback()
def db() -> None:
    """The ledger's tables."""


@app.command()
def migrate(
    *,
    wait: Annotated[float, typer.Option(help="seconds for the database to come up", min=0)] = 60.0,
) -> None:
    """Bring the tables of GEMHOOKS_DATABASE_URL to this release; any number may do so at once."""
    from gemhooks.settings import Settings  # noqa: PLC0415 - slow to import, and --help is not

    bring_up_to_date(Settings.from_env().database_url.get_secret_value(), wait=wait)
    typer.echo("The tables are those of this release.")


def bring_up_to_date(url: str, *, wait: float) -> None:
    """Raises Misconfigured for what a person must mend, LedgerUnavailable after *wait* seconds."""
    from gemhooks.ledger import open_ledger  # noqa: PLC0415 - SQLAlchemy is slow to import

    deadline = time.monotonic() + wait
    while True:
        try:
            open_ledger(url).close()
        except LedgerUnavailable:
            if time.monotonic() >= deadline:
                raise
            time.sleep(PAUSE)
        else:
            return
