"""``gemhooks listen``: see what passes by, and pass it on."""

import signal
import sys
import time
from collections.abc import Generator, Iterable
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Annotated, Any

import typer

from gemhooks import jsontext, topology
from gemhooks.cli import sending
from gemhooks.cli.tables import PLAIN, Format, FormatOption
from gemhooks.errors import Unavailable
from gemhooks.messages import Message
from gemhooks.settings import Settings

SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 15.0  # seconds before the broker is tried again


def listen(
    *,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="a type or a pattern, batch.*; repeatable")
    ] = None,
    forward_to: Annotated[
        str, typer.Option(help="post each there, signed with GEMINI_WEBHOOK_SECRET")
    ] = "",
    simulator: Annotated[
        str, typer.Option(help="listen to the simulator at this URL, not to the broker")
    ] = "",
    count: Annotated[int, typer.Option(min=0, help="end after so many; 0: never")] = 0,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show every event and result from now on, one line each, until Ctrl-C.

    Through a queue of its own, so that no consumer misses anything.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what is ours is cleared away
    key = sending.key_of() if forward_to else b""
    wanted = partial(is_wanted, types or ["#"])
    with closing(source(simulator)) as messages:
        for message in islice(filter(wanted, messages), count or None):
            status = forward(message, sending.check(forward_to), key) if forward_to else None
            show = json_line if form is Format.JSON else line
            typer.echo(show(message, status))  # flushes: who reads a pipe sees it at once


def is_wanted(types: list[str], message: Message) -> bool:
    return any(topology.matches(each, message.type) for each in types)


def source(simulator: str) -> Generator[Message]:
    if not simulator:
        return from_broker(Settings.from_env().broker_url.get_secret_value())
    from gemhooks.cli import overhearing  # noqa: PLC0415 - needs Google's client

    return overhearing.listen(sending.check(simulator.rstrip("/")), partial(say, simulator))


def say(place: str) -> None:
    typer.echo(f"listening to {place} ...", err=True)


def from_broker(url: str) -> Generator[Message]:
    """Connects again where the broker was there and went away; what passed meanwhile is missed."""
    from gemhooks.queues import listening  # noqa: PLC0415 - pika or SQLite, and --help is neither

    pauses = Pauses()
    place = "RabbitMQ" if url.startswith("amqp") else url

    def ready() -> None:
        say(place)
        pauses.reset()

    while True:
        try:
            with closing(listening.listen(url, ready)) as messages:
                yield from messages
        except Unavailable as error:
            if not pauses.was_there:
                raise
            typer.echo(f"gemhooks: {error}; trying again.", err=True)
            pauses.wait()


class Pauses:
    """Longer and longer ones, from the start again once it was there."""

    was_there = False

    def reset(self) -> None:
        self.was_there, self._next = True, SHORTEST_PAUSE

    def wait(self) -> None:
        time.sleep(self._next)
        self._next = min(2 * self._next, LONGEST_PAUSE)


def forward(message: Message, url: str, key: bytes) -> int | None:
    """Post it once, there and nowhere else, signed now; None where nothing answers."""
    try:
        return sending.post(url, message.body, sending.headers(message.id, message.body, key))
    except Unavailable as error:
        typer.echo(f"gemhooks: {error}", err=True)
        return None


def line(message: Message, status: int | None) -> str:
    now = time.strftime("%H:%M:%S")
    answered = f" -> {status}" if status else ""
    text = (
        f"{now}  {message.type:<27} {message.id:<40} {resource_of(message):<40}"
        f" {message.source} {message.scheme or '-'}{answered}"
    )
    return text.translate(PLAIN | {9: " ", 10: " "})


def resource_of(message: Message) -> str:
    """What the event is about, as far as it can be read: an unproven body proves nothing."""
    found = body_of(message)
    places: Iterable[Any] = (found.get("data"), found.get("interaction")) if found else ()
    for place in places:
        if isinstance(place, dict):
            return str(place.get("id") or place.get("name") or place.get("interaction_id") or "-")
    return "-"


def body_of(message: Message) -> dict[str, Any]:
    """The JSON object that the body is, or {}."""
    try:
        found = jsontext.loads(message.body)
    except jsontext.Malformed:
        return {}
    return found if isinstance(found, dict) else {}


def json_line(message: Message, status: int | None) -> str:
    known = {
        "id": message.id,
        "type": message.type,
        "time": message.time,
        "scheme": message.scheme,
        "trust": message.trust,
        "source": message.source.value,
        "attempt": message.attempt,
        "forwarded": status,
        "body": body_of(message) or as_text(message),
    }
    try:
        return jsontext.dumps(known).decode()
    except ValueError:  # deeper than it can be written
        return jsontext.dumps(known | {"body": as_text(message)}).decode()


def as_text(message: Message) -> str:
    return message.body.decode("utf-8", "replace")
