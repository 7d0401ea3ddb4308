"""Lists for people and for scripts: a table, or JSON with ``--format json``."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gemhooks.logs import PLAIN

__all__ = ["PLAIN", "Format", "FormatOption", "show", "show_one"]


WIDEST = 10_000  # columns of characters
MOST_ROWS = 1_000_000_000  # that a person may ask for: larger numbers are none to a database


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="for people or for scripts")]


def show(rows: Sequence[dict[str, Any]], columns: Sequence[str], form: Format) -> None:
    """Print *rows*, one line each; JSON has every field, the table only *columns*."""
    if form is Format.JSON:
        typer.echo(orjson.dumps(list(rows), option=orjson.OPT_INDENT_2).decode())
        return
    table, console = Table(), Console()
    for column in columns:  # an id is there to be copied
        table.add_column(column, no_wrap=column == "id", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    _fit(table, console)
    console.print(table)
    typer.echo(f"{len(rows)} in all")


def _fit(table: Table, console: Console) -> None:
    """Whole lines for who reads a pipe; on a narrow terminal even ids are folded, none is lost."""
    wanted = console.measure(table, options=console.options.update(max_width=WIDEST)).maximum
    if not console.is_terminal:
        console.width = max(console.width, wanted)
    elif wanted > console.width:
        for column in table.columns:
            column.no_wrap = False


def show_one(fields: dict[str, Any], names: Sequence[str], form: Format) -> None:
    """Print one thing: JSON has every field, the table those of *names* that are not empty."""
    if form is Format.JSON:
        typer.echo(orjson.dumps(fields, option=orjson.OPT_INDENT_2).decode())
        return
    width = max(map(len, names))
    for name in names:
        value = fields.get(name)
        if value not in (None, ""):
            said = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
            typer.echo(f"{name:<{width}}  {said}".translate(PLAIN))


def _cell(value: Any) -> Text:
    # Not a str: rich would take "[...]" in an id or a message for its own markup.
    return Text("" if value is None else str(value).translate(PLAIN))
