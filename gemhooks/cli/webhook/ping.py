"""``gemhooks webhook ping``: does a delivery get through to us?"""

from dataclasses import asdict
from typing import Annotated

import typer

from gemhooks.cli.tables import Format, FormatOption, show_one
from gemhooks.cli.webhook.shared import (
    IdArgument,
    ReceiverOption,
    held_secrets,
    read_settings,
    webhooks,
)
from gemhooks.gemini.webhooks import webhook_id
from gemhooks.webhooks.pinging import Pinger
from gemhooks.webhooks.receivers import Receivers


def ping(
    webhook: IdArgument,
    *,
    wait: Annotated[
        bool, typer.Option("--wait", help="until our receiver has it; exit code 1 if it has not")
    ] = False,
    timeout: Annotated[float, typer.Option(help="seconds to wait", min=0)] = 20.0,
    receiver: ReceiverOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Ask Gemini to send a ping; with --wait, prove that it went all the way."""
    bare = webhook_id(webhook)
    with webhooks() as api:
        if not wait:
            api.ping(bare)
            typer.echo("Gemini took the request, which proves nothing more: see --wait.")
            return
        settings = read_settings()
        receivers = Receivers.of(receiver or (), settings)
        verdict = Pinger(api, receivers, held_secrets(settings)).ping(
            api.get(bare), timeout=timeout
        )
    show_one({"webhook": bare, **asdict(verdict)}, ("webhook", "arrived", "seconds", "text"), form)
    raise typer.Exit(0 if verdict.arrived else 1)
