"""``gemhooks batches``: what to do about what a batch did not bring."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gemhooks.cli.writing import aside
from gemhooks.errors import Misconfigured
from gemhooks.heads import bare_id
from gemhooks.settings import Settings

if TYPE_CHECKING:
    from gemhooks.results import ResultsStore

app = typer.Typer(help="What to do about what a batch did not bring.", no_args_is_help=True)

CHUNK = 1 << 20  # bytes


@app.callback()
def options() -> None:
    """What to do about what a batch did not bring."""


@app.command("retry")
def retry(
    batch: Annotated[str, typer.Argument(metavar="ID", help="batches/... or without the prefix")],
    given: Annotated[
        Path, typer.Option("--input", help="the JSONL file the batch was made of", exists=True)
    ],
    output: Annotated[Path, typer.Option(help="where the new input goes")] = Path("retry.jsonl"),
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="also rows that were refused for good")
    ] = False,
) -> None:
    """Write the input for just those rows that need another try: failed, empty, or never came.

    Gemini does not give an input file back, so it must be at hand.
    """
    from gemhooks.batches.lines import lines_of  # noqa: PLC0415 - fsspec and sqlite, only here
    from gemhooks.batches.retrying import Retrying  # noqa: PLC0415
    from gemhooks.results import ResultsStore  # noqa: PLC0415

    settings = Settings.from_env()
    store = ResultsStore(settings.results_url, spool=settings.spool)
    chosen = Retrying(everything=everything)
    chosen.results(lines_of(_rows(store, bare_id(batch))))
    with given.open("rb") as file:
        chunks = iter(lambda: file.read(CHUNK), b"")
        with aside(output) as new:
            new.writelines(line + b"\n" for line in chosen.requests(lines_of(chunks)))
    typer.echo(f"{chosen.again} rows to send again are in {output}")
    typer.echo(f"{chosen.answered} were answered")
    if chosen.hopeless:
        typer.echo(f"{chosen.hopeless} were refused for good and left out (--all takes them in)")
    if chosen.keyless:
        typer.echo(f"{chosen.keyless} of them have no key: nobody can tell what came of them")


def _rows(store: "ResultsStore", batch_id: str) -> Iterator[bytes]:
    """What the batch brought; of an expired one, nothing."""
    if store.find("batches", batch_id, "rows.jsonl"):
        return store.chunks("batches", batch_id, "rows.jsonl")
    if store.find("batches", batch_id, "summary.json"):
        return iter(())
    raise Misconfigured(
        f"nothing of the batch {batch_id} is in the results store: has its event been handled? "
        f"See gemhooks jobs show {batch_id}."
    )
