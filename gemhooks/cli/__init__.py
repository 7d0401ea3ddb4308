"""The ``gemhooks`` command."""

from importlib.metadata import version
from typing import Annotated

import typer

from gemhooks import entry
from gemhooks.cli import (
    batches,
    calls,
    db,
    demo,
    dlq,
    doctor,
    health,
    interactions,
    jobs,
    listen,
    results,
    run,
    simulate,
    trigger,
    webhook,
)

app = typer.Typer(
    name="gemhooks",
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


app.command("demo")(demo.demo)
app.command("up")(run.up)
app.command("receiver")(run.receiver)
app.command("workers")(run.workers)
app.command("reconcile")(run.reconcile)
app.command("consume")(run.consume)
app.command("simulate")(simulate.simulate)
app.command("listen")(listen.listen)
app.command("trigger")(trigger.trigger)
app.add_typer(batches.app, name="batches")
app.add_typer(calls.app, name="calls")
app.add_typer(db.app, name="db")
app.add_typer(dlq.app, name="dlq")
app.add_typer(interactions.app, name="interactions")
app.add_typer(jobs.app, name="jobs")
app.add_typer(results.app, name="results")
app.command("doctor")(doctor.doctor)
app.command("health")(health.health)
app.add_typer(webhook.app, name="webhook")


def main() -> None:
    """Run the command; what is wrong is one sentence on stderr."""
    entry.run(app)
