"""The commands and their options, as typer itself documents them."""

import typer
from typer.cli import get_docs_for_click

from gemhooks.cli import app


def page() -> str:
    command = typer.main.get_command(app)
    context = typer.Context(command, info_name="gemhooks")
    text = get_docs_for_click(obj=command, ctx=context, name="gemhooks", title="Commands")
    return text.rstrip() + "\n"
