"""``gemhooks webhook rotate``: a new signing secret, and no event lost over it."""

from dataclasses import asdict
from typing import Annotated

import typer

from gemhooks.cli.tables import Format, FormatOption, show_one
from gemhooks.cli.webhook.shared import (
    SECRET_FILE,
    IdArgument,
    ReceiverOption,
    SaveTo,
    ShowSecret,
    read_settings,
    saving_place,
    webhooks,
)
from gemhooks.errors import Misconfigured
from gemhooks.gemini.webhooks import Revocation, webhook_id
from gemhooks.webhooks.receivers import Receivers
from gemhooks.webhooks.rotation import Moment, Report, Rotation

FIELDS = ("webhook", "secret", "fingerprint", "verified", "refused", "old_until", "text")


def rotate(
    webhook: IdArgument,
    *,
    save_to: SaveTo = "",
    resume: Annotated[
        bool, typer.Option("--resume", help="go on after a crash, or remove what has expired")
    ] = False,
    revoke_now: Annotated[
        bool, typer.Option("--revoke-now", help="end the old secrets at once: they leaked")
    ] = False,
    show_secret: ShowSecret = False,
    timeout: Annotated[float, typer.Option(help="seconds to wait for a proof", min=0)] = 60.0,
    receiver: ReceiverOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Make a new secret, save it for the receivers, prove it by a ping, keep the old till its end.

    Exit code 1 while it is not proven that the new one verifies.
    """
    bare, how = webhook_id(webhook), revocation(revoke_now=revoke_now)
    with webhooks() as api:
        if show_secret:
            only_shown(save_to, resume=resume)
            typer.echo(api.rotate(bare, revocation=how))
            return
        receivers = Receivers.of(receiver or (), read_settings())
        rotation = Rotation(api, saving_place(save_to), receivers, bare, timeout, tell)
        report = rotation.resume() if resume else rotation.begin(how)
    show_report(report, bare, form)


def revocation(*, revoke_now: bool) -> Revocation:
    return Revocation.IMMEDIATELY if revoke_now else Revocation.AFTER_24_HOURS


def only_shown(save_to: str, *, resume: bool) -> None:
    if save_to or resume:
        raise Misconfigured(
            "--show-secret prints the secret instead of saving it: it goes neither with --resume"
            f" nor with --save-to or {SECRET_FILE}."
        )


def tell(moment: Moment) -> None:
    typer.echo(f"  {moment.value}", err=True)


def show_report(report: Report | None, webhook: str, form: Format) -> None:
    if report is None:
        said = {"webhook": webhook, "text": "no rotation is under way; nothing to do"}
        show_one(said, FIELDS, form)
        return
    show_one(asdict(report), FIELDS, form)
    raise typer.Exit(0 if report.verified else 1)
