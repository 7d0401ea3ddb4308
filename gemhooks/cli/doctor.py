"""``gemhooks doctor``: what is wrong, and what to do."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import cache
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gemhooks.cli.tables import Format, FormatOption
from gemhooks.cli.webhook.shared import ReceiverOption, held_secrets, opened, read_settings
from gemhooks.doctor.findings import Check, Finding, Level
from gemhooks.gemini.webhooks import Webhooks, webhook_id
from gemhooks.webhooks.receivers import Receivers

STYLES = {Level.GREEN: "green", Level.YELLOW: "yellow", Level.RED: "bold red", Level.SKIPPED: "dim"}


def doctor(
    *,
    webhook: Annotated[str, typer.Option(help="this webhook only, by id")] = "",
    queue: Annotated[list[str] | None, typer.Option(help="a queue of your own, too")] = None,
    ping: Annotated[bool, typer.Option(help="send a ping all the way")] = True,
    timeout: Annotated[float, typer.Option(help="seconds to wait for the ping", min=0.1)] = 10.0,
    strict: Annotated[bool, typer.Option("--strict", help="yellow counts as red")] = False,
    receiver: ReceiverOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Look at everything an event passes on its way; exit code 1 where something is red."""
    from gemhooks.doctor.checks import all_checks  # noqa: PLC0415 - SQLAlchemy is slow to import

    settings = read_settings()
    wanted = webhook_id(webhook) if webhook else ""
    receivers = Receivers.of(receiver or (), settings)
    with ExitStack() as stack:

        @cache
        def api() -> Webhooks:
            return stack.enter_context(opened(settings))

        checks = all_checks(
            settings,
            api,
            receivers=receivers,
            held=lambda: held_secrets(settings),
            webhook=wanted,
            queues=queue or (),
            ping_timeout=timeout if ping else 0.0,
        )
        findings = list(run(checks))
    show(findings, form)
    bad = {Level.RED, Level.YELLOW} if strict else {Level.RED}
    raise typer.Exit(1 if any(each.level in bad for each in findings) else 0)


def run(checks: Sequence[Check]) -> Iterator[Finding]:
    """One after the other, saying on a terminal which is being looked at."""
    with Console(stderr=True).status("...") as status:
        for check in checks:
            status.update(f"looking at {check.name} ...")
            yield from check.findings()


def show(findings: Sequence[Finding], form: Format) -> None:
    if form is Format.JSON:
        rows = [asdict(each) for each in findings]
        typer.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
        return
    table = Table("check", "", "found", "what to do")
    for each in findings:
        level = Text(each.level.value, style=STYLES[each.level])
        table.add_row(each.check, level, Text(each.text), Text(each.remedy))
    Console().print(table)
