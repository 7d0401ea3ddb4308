"""``gemhooks dlq``: look at dead letters, send them back, throw them away."""

import base64
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import Annotated, Any

import structlog
import typer
from rich.console import Console
from rich.progress import track

from gemhooks import logs, topology
from gemhooks.cli.dlq.choice import (
    Choice,
    IdOption,
    NewerOption,
    OlderOption,
    QueueOption,
    ReasonOption,
    TypeOption,
)
from gemhooks.cli.dlq.replay import Fate, IsDone, Replayer, target_of
from gemhooks.cli.tables import MOST_ROWS, Format, FormatOption, show
from gemhooks.errors import Misconfigured
from gemhooks.messages import Broker, Look, Seen
from gemhooks.settings import Settings

app = typer.Typer(help="Look at dead letters, send them back.", no_args_is_help=True)

COLUMNS = ("queue", "id", "type", "attempts", "reason", "at")
INTERRUPTED = 130
NOT_ALL = (
    "only the built-in consumers' queues were looked into: AMQP tells of no others. "
    "Name yours with --queue, or set GEMHOOKS_MANAGEMENT_URL."
)

AllOption = Annotated[bool, typer.Option("--all", help="every dead letter there is")]


@app.callback()
def options() -> None:
    """Look at dead letters, send them back, throw them away."""


@app.command("list")
def list_(
    *,
    queue: QueueOption = "",
    id_: IdOption = "",
    type_: TypeOption = "",
    reason: ReasonOption = "",
    older_than: OlderOption = "",
    newer_than: NewerOption = "",
    limit: Annotated[
        int, typer.Option(help="at most so many of each queue", min=1, max=MOST_ROWS)
    ] = 100,
    form: FormatOption = Format.TABLE,
) -> None:
    """List dead letters; looking at them does not use them up."""
    choice = Choice.of(
        id=id_,
        type=type_,
        reason=reason,
        older_than=older_than,
        newer_than=newer_than,
        now=time.time(),
    )
    settings = Settings.from_env()
    with opened(settings) as broker:
        rows = [
            row(name, seen)
            for name in places(broker, queue, settings)
            for seen in found(broker, name, choice, limit)
        ]
    show(rows, COLUMNS, form)


@app.command("show")
def show_(
    id_: Annotated[str, typer.Argument(metavar="ID", help="webhook-id of the event")],
    queue: QueueOption = "",
) -> None:
    """Show all that a dead letter carries, its body included, as JSON."""
    settings = Settings.from_env()
    with opened(settings) as broker:
        rows = [
            {**row(name, seen), "headers": dict(seen.headers), "body": text(seen.message.body)}
            for name in places(broker, queue, settings)
            for seen in found(broker, name, Choice(id=id_), sys.maxsize)
        ]
    if not rows:
        raise Misconfigured(f"no dead letter has the id {id_!r}.")
    show(rows, (), Format.JSON)


@app.command()
def replay(
    *,
    queue: QueueOption = "",
    id_: IdOption = "",
    type_: TypeOption = "",
    reason: ReasonOption = "",
    older_than: OlderOption = "",
    newer_than: NewerOption = "",
    everything: AllOption = False,
    force: Annotated[
        bool, typer.Option("--force", help="also what the consumer has done already, once more")
    ] = False,
) -> None:
    """Send dead letters back to the consumer they came from, as if they had just arrived."""
    choice = Choice.of(
        id=id_,
        type=type_,
        reason=reason,
        older_than=older_than,
        newer_than=newer_than,
        now=time.time(),
    )
    require_a_choice(choice, queue, everything=everything)
    settings = Settings.from_env()
    fates: Counter[str] = Counter()
    with opened(settings) as broker, ledger(settings) as is_done:
        try:
            for name in places(broker, queue, settings):
                with closing(broker.look(name)) as look:
                    one = Replayer(broker, look, target_of(name), is_done, force)
                    letters = matching(look, choice, f"replaying {name}")
                    fates.update(one.replay(letters))
                    fates.update({f"failed ({why})": n for why, n in one.failures.items()})
        except KeyboardInterrupt:
            typer.echo("interrupted: what was not replayed is still there.", err=True)
            raise typer.Exit(INTERRUPTED) from None
    report(fates, force=force)


@app.command()
def purge(
    *,
    queue: QueueOption = "",
    id_: IdOption = "",
    type_: TypeOption = "",
    reason: ReasonOption = "",
    older_than: OlderOption = "",
    newer_than: NewerOption = "",
    everything: AllOption = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """Throw dead letters away, for ever."""
    choice = Choice.of(
        id=id_,
        type=type_,
        reason=reason,
        older_than=older_than,
        newer_than=newer_than,
        now=time.time(),
    )
    require_a_choice(choice, queue, everything=everything)
    if not yes:
        typer.confirm("Throw these dead letters away for ever?", abort=True)
    removed, settings = 0, Settings.from_env()
    with opened(settings) as broker:
        for name in places(broker, queue, settings):
            with closing(broker.look(name)) as look:
                for seen in matching(look, choice, f"purging {name}"):
                    look.remove(seen)
                    removed += 1
    typer.echo(f"{removed} purged")


# -- what the commands share


@contextmanager
def opened(settings: Settings) -> Iterator[Broker]:
    from gemhooks.queues.connect import check, connect_as  # noqa: PLC0415 - pika only when needed

    if not structlog.is_configured():  # else its lines go to stdout, between ours
        logs.configure(settings.log_format, "warning")
    check(settings.broker_url.get_secret_value())
    broker = connect_as(settings)
    try:
        broker.check()
        yield broker
    finally:
        broker.close()


@contextmanager
def ledger(settings: Settings) -> Iterator[IsDone]:
    from gemhooks.ledger import open_ledger  # noqa: PLC0415 - SQLAlchemy is slow to import

    if settings.ledger == "off":
        yield lambda _queue, _key: False
        return
    ledgers = open_ledger(settings.database_url.get_secret_value())
    try:
        yield ledgers.handled.is_done
    finally:
        ledgers.close()


def require_a_choice(choice: Choice, queue: str, *, everything: bool) -> None:
    """A slip of the finger must not mean all of them."""
    if choice.is_everything and not queue and not everything:
        raise Misconfigured("say which (--queue, --id, --type, --reason ...), or --all.")


def places(broker: Broker, queue: str, settings: Settings) -> list[str]:
    """The queues to look into; a person hears where there may be more of them."""
    if queue == "unrouted":
        return [topology.UNROUTED]
    if queue:
        return [topology.dead_letters(topology.queue_name(queue))]
    if not is_embedded(settings) and not settings.management_url.get_secret_value():
        typer.echo(NOT_ALL, err=True)
    return broker.dead_letter_queues()


def is_embedded(settings: Settings) -> bool:
    return settings.broker_url.get_secret_value().startswith("sqlite:")


def found(broker: Broker, name: str, choice: Choice, limit: int) -> list[Seen]:
    with closing(broker.look(name)) as look:
        return list(islice(filter(choice.takes, look), limit))


def matching(look: Look, choice: Choice, title: str) -> Iterator[Seen]:
    """Those that were there at the start: what is replayed may die again meanwhile."""
    at_first = islice(look, len(look))
    shown = track(
        at_first,
        title,
        total=len(look),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty() or not len(look),
    )
    return filter(choice.takes, shown)


def report(fates: Counter[str], *, force: bool) -> None:
    """One line; exit code 1 where some could not be sent."""
    parts = [f"{count} {fate}" for fate, count in sorted(fates.items())]
    typer.echo(", ".join(parts) or "no dead letter matches")
    if fates[Fate.ALREADY_DONE]:
        again = "purge removes them" if force else "--force runs them again, purge removes them"
        typer.echo(f"what is already done was left where it is: {again}.", err=True)
    if fates[Fate.FAILED]:
        raise typer.Exit(1)


def row(letters: str, seen: Seen) -> dict[str, Any]:
    message, headers = seen.message, seen.headers
    return {
        "queue": target_of(letters) or letters,
        "id": message.id,
        "type": message.type,
        "attempts": headers.get("gemhooks-dead-attempts", message.attempt),
        "reason": headers.get("gemhooks-dead-reason", ""),
        "error_type": headers.get("gemhooks-dead-error-type", ""),
        "error_message": headers.get("gemhooks-dead-error-message", ""),
        "first_at": headers.get("gemhooks-dead-first-at", ""),
        "at": headers.get("gemhooks-dead-at", ""),
        "host": headers.get("gemhooks-dead-host", ""),
    }


def text(body: bytes) -> str:
    """As it is where it is text, else base64."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(body).decode()
