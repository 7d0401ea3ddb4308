"""The ``gemhooks`` command."""

from importlib.metadata import version
from typing import Annotated

import typer

from gemhooks import entry
from gemhooks.cli.late import late_group

COMMANDS = {
    "demo": "gemhooks.cli.demo:demo",
    "up": "gemhooks.cli.run:up",
    "receiver": "gemhooks.cli.run:receiver",
    "workers": "gemhooks.cli.run:workers",
    "reconcile": "gemhooks.cli.run:reconcile",
    "consume": "gemhooks.cli.run:consume",
    "simulate": "gemhooks.cli.simulate:simulate",
    "listen": "gemhooks.cli.listen:listen",
    "trigger": "gemhooks.cli.trigger:trigger",
    "doctor": "gemhooks.cli.doctor:doctor",
    "health": "gemhooks.cli.health:health",
    "batches": "gemhooks.cli.batches:app",
    "calls": "gemhooks.cli.calls:app",
    "db": "gemhooks.cli.db:app",
    "dlq": "gemhooks.cli.dlq:app",
    "interactions": "gemhooks.cli.interactions:app",
    "jobs": "gemhooks.cli.jobs:app",
    "results": "gemhooks.cli.results:app",
    "webhook": "gemhooks.cli.webhook:app",
}

app = typer.Typer(
    name="gemhooks",
    cls=late_group(COMMANDS),
    help="Turns Gemini API webhooks into finished work.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its tracebacks show locals, secrets included
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        typer.echo(f"gemhooks {version('gemhooks')}")
        raise typer.Exit


@app.callback()
def options(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Turns Gemini API webhooks into finished work."""


def main() -> None:
    """Run the command; what is wrong is one sentence on stderr."""
    entry.run(app)
