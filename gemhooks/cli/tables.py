"""Lists for people and for scripts: a table, or JSON with ``--format json``."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.table import Table


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="for people or for scripts")]


def show(rows: Sequence[dict[str, Any]], columns: Sequence[str], form: Format) -> None:
    """Print *rows*, one line each; JSON has every field, the table only *columns*."""
    if form is Format.JSON:
        typer.echo(orjson.dumps(list(rows), option=orjson.OPT_INDENT_2).decode())
        return
    table = Table(*columns)
    for row in rows:
        table.add_row(*(str(row.get(column, "")) for column in columns))
    Console().print(table)
    typer.echo(f"{len(rows)} in all")
