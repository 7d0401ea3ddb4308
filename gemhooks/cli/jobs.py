"""``gemhooks jobs``: what was started or seen, and how it stands."""

from dataclasses import asdict
from typing import Annotated

import typer

from gemhooks.cli.tables import Format, FormatOption, show
from gemhooks.settings import Settings

app = typer.Typer(help="Interactions, batches and videos that were seen.", no_args_is_help=True)

COLUMNS = ("kind", "id", "state", "event_type", "updated_at")


@app.callback()
def options() -> None:
    """Interactions, batches and videos that were seen."""


@app.command("list")
def list_(
    kind: Annotated[str, typer.Option(help="interaction, batch or video")] = "",
    state: Annotated[str, typer.Option(help="for instance failed")] = "",
    limit: Annotated[int, typer.Option(help="the newest so many", min=1)] = 100,
    form: FormatOption = Format.TABLE,
) -> None:
    """List jobs, the newest first."""
    from gemhooks.ledger import open_ledger  # noqa: PLC0415 - SQLAlchemy is slow to import

    ledgers = open_ledger(Settings.from_env().database_url.get_secret_value())
    try:
        jobs = ledgers.jobs.list(kind=kind or None, state=state or None, limit=limit)
    finally:
        ledgers.close()
    show([asdict(job) for job in jobs], COLUMNS, form)
