"""``gemhooks results``: what was fetched, where it lies, and a copy of it."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from gemhooks.cli.tables import MOST_ROWS, Format, FormatOption, show, show_one
from gemhooks.cli.writing import aside
from gemhooks.errors import Misconfigured
from gemhooks.heads import bare_id
from gemhooks.settings import Settings

if TYPE_CHECKING:
    from gemhooks.results import ResultsStore

app = typer.Typer(help="What was fetched, where it lies, and a copy of it.", no_args_is_help=True)

COLUMNS = ("kind", "id", "bytes", "stored_at", "url")
# What the store keeps of each kind; the file that tells of the rest is the last.
FILES = {
    "interactions": ("json", "summary.json"),
    "conversations": ("json",),
    "batches": ("rows.jsonl", "summary.json"),
    "videos": ("mp4", "json"),
}
ResultId = Annotated[str, typer.Argument(metavar="ID", help="of an interaction, batch or video")]


@app.callback()
def options() -> None:
    """What was fetched, where it lies, and a copy of it."""


@app.command("list")
def list_(
    kind: Annotated[str, typer.Option(help="interaction, batch or video")] = "",
    limit: Annotated[int, typer.Option(help="the newest so many", min=1, max=MOST_ROWS)] = 100,
    form: FormatOption = Format.TABLE,
) -> None:
    """List what was stored, the newest first."""
    from gemhooks.ledger import open_ledger  # noqa: PLC0415 - SQLAlchemy is slow to import

    opened = open_ledger(Settings.from_env().database_url.get_secret_value())
    try:
        found = opened.results.list(kind or None, limit=limit)
    finally:
        opened.close()
    rows = [asdict(each) | {"stored_at": _time(each.stored_at)} for each in found]
    show(rows, COLUMNS, form)


@app.command("show")
def show_result(result_id: ResultId, form: FormatOption = Format.TABLE) -> None:
    """Show what is stored of one job: its files, and what is known of them."""
    store = _store()
    found = _found(store, result_id)
    told: dict[str, Any] = {}
    for kind, suffix in found:
        if suffix == FILES[kind][-1]:
            told |= orjson.loads(store.read(kind, bare_id(result_id), suffix) or b"{}")
    files = [{"file": f"{kind}/{suffix}", "bytes": size} for (kind, suffix), size in found.items()]
    told = {name: value for name, value in told.items() if value not in (None, "", {}, [])}
    if form is Format.JSON:
        show_one(told | {"files": files}, (), form)
        return
    show(files, ("file", "bytes"), form)
    show_one(told, list(told), form)


@app.command("export")
def export(
    result_id: ResultId,
    to: Annotated[Path, typer.Option(help="a folder")] = Path(),
) -> None:
    """Copy what is stored of one job to a folder; a file has its name only when it is whole."""
    from gemhooks.results import safe_id  # noqa: PLC0415 - fsspec, only here

    store, bare = _store(), bare_id(result_id)
    for (kind, suffix), size in _found(store, result_id).items():
        target = to / f"{safe_id(bare)}.{suffix}"
        with aside(target) as file:
            file.writelines(_shown(store.chunks(kind, bare, suffix), size, target.name))
        typer.echo(f"{target}  {size} bytes")


def _store() -> "ResultsStore":
    from gemhooks.results import ResultsStore  # noqa: PLC0415 - fsspec, only here

    settings = Settings.from_env()
    return ResultsStore(settings.results_url, spool=settings.spool)


def _found(store: "ResultsStore", result_id: str) -> dict[tuple[str, str], int]:
    """Kind and suffix of each file, with its size. Raises Misconfigured where there is none."""
    found = {
        (kind, suffix): stored.size
        for kind, suffixes in FILES.items()
        for suffix in suffixes
        if (stored := store.find(kind, bare_id(result_id), suffix))
    }
    if not found:
        raise Misconfigured(f"nothing is stored of {result_id}; gemhooks results list shows all.")
    return found


def _shown(chunks: Iterator[bytes], size: int, name: str) -> Iterator[bytes]:
    """*chunks*, with a bar for a person who waits."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=size)
        for chunk in chunks:
            progress.advance(task, len(chunk))
            yield chunk


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
