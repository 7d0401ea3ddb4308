"""``gemhooks dlq``: look at dead letters."""

from typing import Annotated, Any

import typer

from gemhooks import topology
from gemhooks.cli.tables import Format, FormatOption, show
from gemhooks.messages import Headers, Message
from gemhooks.settings import Settings

app = typer.Typer(help="Look at dead letters.", no_args_is_help=True)

COLUMNS = ("queue", "id", "type", "attempts", "reason", "at")


@app.callback()
def options() -> None:
    """Look at dead letters."""


@app.command("list")
def list_(
    queue: Annotated[str, typer.Option(help="only of this consumer")] = "",
    limit: Annotated[int, typer.Option(help="at most so many of each queue", min=1)] = 100,
    form: FormatOption = Format.TABLE,
) -> None:
    """List dead letters; looking at them does not use them up."""
    from gemhooks.queues.connect import connect  # noqa: PLC0415 - pika only when needed

    settings = Settings.from_env()
    broker = connect(
        settings.broker_url.get_secret_value(), publish_timeout=settings.publish_timeout
    )
    try:
        broker.check()
        names = [topology.queue_name(queue)] if queue else [each.name for each in topology.BUILT_IN]
        rows = [
            row(name, message, headers)
            for name in names
            for message, headers in broker.browse(topology.dead_letters(name), limit=limit)
        ]
    finally:
        broker.close()
    show(rows, COLUMNS, form)


def row(queue: str, message: Message, headers: Headers) -> dict[str, Any]:
    return {
        "queue": queue,
        "id": message.id,
        "type": message.type,
        "attempts": message.attempt,
        "reason": headers.get("gemhooks-dead-reason", ""),
        "error_type": headers.get("gemhooks-dead-error-type", ""),
        "error_message": headers.get("gemhooks-dead-error-message", ""),
        "at": headers.get("gemhooks-dead-at", ""),
        "host": headers.get("gemhooks-dead-host", ""),
    }
