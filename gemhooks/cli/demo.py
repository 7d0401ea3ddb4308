"""``gemhooks demo``: the whole way of an event, on this machine, on embedded parts."""

import shlex
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from gemhooks.cli import children
from gemhooks.cli.children import Children, Line, Program
from gemhooks.cli.demo_outcome import CONVERSATIONS, Conversation, chains, report, short
from gemhooks.errors import Unavailable

if TYPE_CHECKING:  # slow to import, and --help is not
    from gemhooks.ledger import Ledgers
    from gemhooks.simulator import Script, Simulator

START_TIMEOUT = 60.0  # seconds; a cold machine compiles bytecode first
EVENTS_TIMEOUT = 60.0
LONGEST_PAUSE = 0.2  # between two looks; each line is a reason for one
ANSWERS = sum(each.ends == "completed" for each in CONVERSATIONS)  # that the consumer will take


@dataclass
class Demo:
    """What the demo knows of its parts, and what it has seen pass."""

    folder: Path
    port: int
    gemini_port: int
    admin_ports: tuple[int, int, int]
    secret: str = field(default_factory=children.new_secret, repr=False)
    ready: set[str] = field(default_factory=set)  # parts that said that they have started
    started: dict[str, Conversation] = field(default_factory=dict)  # by its first interaction
    answered: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/webhooks/gemini"

    @property
    def gemini_url(self) -> str:
        return f"http://127.0.0.1:{self.gemini_port}"

    def can_begin(self) -> bool:
        """Whether every event and answer has a queue; the workers may come later."""
        return {"receiver", "consumer"} <= self.ready

    def is_over(self, ledgers: "Ledgers") -> bool:
        """Whether every conversation has ended and the consumer has had every answer."""
        if self.answered < ANSWERS:
            return False
        return all(chain.has_ended for chain in chains(ledgers, self.started))


def demo(
    *,
    keep: Annotated[bool, typer.Option("--keep", help="leave it running until Ctrl-C")] = False,
) -> None:
    """See the whole way: ask, be called back, verify, queue, run functions, fetch, consume.

    One interaction completes, one asks for two functions at once, one fails.
    """
    # Without this, SIGTERM would leave the children behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = time.monotonic()
    admin_ports = (free_port(), free_port(), free_port())
    this = Demo(new_folder(), free_port(), free_port(), admin_ports)
    typer.echo("starting   simulator, receiver, workers and a consumer ...")
    env = environment(this)
    # The children first: they start while we import what is ours.
    with running_children(this, env) as running, simulator(this), reading(env) as ledgers:
        watch_until(running, this.can_begin, START_TIMEOUT, this)
        ask(this)
        watch_until(running, lambda: this.is_over(ledgers), EVENTS_TIMEOUT, this)
        report(chains(ledgers, this.started), this.folder / "results")
        typer.echo(f"all in {this.folder}\ndone in {time.monotonic() - started:.1f} s")
        if keep:
            keep_running(this, running)


def simulator(this: Demo) -> "Simulator":
    """The local Gemini, which calls our receiver back."""
    from gemhooks.simulator import Simulator  # noqa: PLC0415 - an extra, imported late

    made = Simulator(this.gemini_port, secret=this.secret, delay=0.1, scripts=scripts())
    made.subscribe(this.url, this.secret)
    return made


def scripts() -> "list[Script]":
    """What the simulated model does with the questions."""
    from gemhooks.simulator import (  # noqa: PLC0415 - see above
        Call,
        CallFunctions,
        Fail,
        Say,
        Script,
    )

    table = {"restaurant": "Steirereck", "people": 2}
    calls = (
        Call(name="get_weather", arguments={"city": "Vienna"}),
        Call(name="book_table", arguments=table),
    )
    answer = Say(text="Clear skies, and your table is booked.")
    return [
        Script(when="weather", turns=(CallFunctions(calls=calls), answer)),
        Script(when="break", turns=(Fail(message="It broke, as it was asked to."),)),
    ]


def new_folder() -> Path:
    """A folder of this run's own, so that two demos at once don't meet."""
    parent = Path("gemhooks-data")
    parent.mkdir(exist_ok=True)
    folder = parent / f"demo-{time.strftime('%H%M%S')}-{time.time_ns() % 10**6:06d}"
    folder.mkdir()
    return folder.resolve()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment(this: Demo) -> dict[str, str]:
    """What every part of the demo is told."""
    return {
        "GEMHOOKS_BROKER_URL": f"sqlite:///{this.folder}/queue.db",
        "GEMHOOKS_DATABASE_URL": f"sqlite:///{this.folder}/ledger.db",
        "GEMHOOKS_RESULTS_URL": f"{this.folder}/results",
        "GEMHOOKS_GEMINI_BASE_URL": this.gemini_url,
        "GEMHOOKS_FUNCTIONS": "examples.tools:functions",
        "GEMHOOKS_FUNCTIONS_FOR": "all",  # whoever asks this Gemini is one of us
        "GEMINI_API_KEY": "demo",
        "GEMINI_WEBHOOK_SECRET": this.secret,
        "GEMHOOKS_HOST": "127.0.0.1",
        "GEMHOOKS_PORT": str(this.port),
        "GEMHOOKS_PRELOAD": "1",  # who watches need not wait for what only a first event does
        "GEMHOOKS_GRACE": "35s",  # longer than the functions may take
        "GEMHOOKS_LOG_FORMAT": "json",
        "GEMHOOKS_LOG_LEVEL": "info",
        "PYTHONUNBUFFERED": "1",
    }


@contextmanager
def running_children(this: Demo, env: dict[str, str]) -> Iterator[Children]:
    """Receiver, built-in workers and the example consumer, stopped at the end."""
    running = Children()
    try:
        for program in programs(this, env):
            running.start(program)
        yield running
    finally:
        running.stop()


def programs(this: Demo, env: dict[str, str]) -> list[Program]:
    example = str(children.clone() / "examples")
    one, two, three = ({**env, "GEMHOOKS_ADMIN_PORT": str(each)} for each in this.admin_ports)
    return [
        Program("receiver", "receiver", env=one),
        Program("workers", "workers", env=two),
        Program(
            "consumer",
            "gemhooks",
            ("consume", "answers:consumers"),
            {**three, "PYTHONPATH": example},
        ),
    ]


@contextmanager
def reading(env: dict[str, str]) -> "Iterator[Ledgers]":
    """What the workers write down; imported while the children start, since it takes a while."""
    from gemhooks.ledger import open_ledger  # noqa: PLC0415 - see above

    ledgers = open_ledger(env["GEMHOOKS_DATABASE_URL"])
    try:
        yield ledgers
    finally:
        ledgers.close()


def ask(this: Demo) -> None:
    """Start interactions as any program would; Gemini will call back.

    By plain HTTP: Google's client takes a second to import, and who watches would wait for it.
    """
    import urllib3  # noqa: PLC0415 - see above

    for each in CONVERSATIONS:
        wanted = {"model": "gemini-3.8-flash", "input": each.question, "background": True}
        url, key = f"{this.gemini_url}/v1beta/interactions", {"x-goog-api-key": "demo"}
        answer = urllib3.request("POST", url, json=wanted, headers=key, timeout=START_TIMEOUT)
        job: str = answer.json()["id"]
        this.started[job] = each
        typer.echo(f"asked      {short(job)} {each.question}")


def watch_until(running: Children, is_over: Any, seconds: float, this: Demo) -> None:
    """Show what the children say until *is_over*; raises Unavailable when it takes too long."""
    deadline = time.monotonic() + seconds
    names = ("receiver", "workers", "consumer")
    while not is_over():
        if time.monotonic() > deadline:
            raise Unavailable("the demo did not come to its end; see the lines above.")
        for line in islice(children.wait_for(running, names, LONGEST_PAUSE), 1):
            show_line(this, line)


def show_line(this: Demo, line: Line) -> None:
    """One line an event: event, id, queue, outcome, milliseconds."""
    if not line.text:
        return
    try:
        said = orjson.loads(line.text)
    except orjson.JSONDecodeError:
        typer.echo(f"{line.name:<10} {line.text}")
        return
    if said.get("event") in ("webhook_received", "message_handled"):
        typer.echo(event_line(line.name, said))
        note(this, said)
    elif said.get("event") in ("receiver_started", "service_started"):
        this.ready.add(line.name)
    elif said.get("level") in ("warning", "error", "critical"):
        typer.echo(f"{line.name:<10} {line.text}", err=True)


def event_line(name: str, said: dict[str, Any]) -> str:
    place = said.get("queue") or "-"
    outcome = said.get("reason") or said.get("outcome", "")
    return (
        f"{name:<10} {said.get('event_type', ''):<27} {said.get('webhook_id', '')[:16]:<16}"
        f" {place:<22} {outcome:<12} {said.get('milliseconds', 0):>7} ms"
    )


def note(this: Demo, said: dict[str, Any]) -> None:
    if said.get("queue") == "gemhooks.answers" and said.get("outcome") == "done":
        this.answered += 1


def keep_running(this: Demo, running: Children) -> None:
    """Print where everything is, then go on showing events until Ctrl-C."""
    typer.echo(
        f"\nreceiver   {this.url}\n"
        f"metrics    http://127.0.0.1:{this.admin_ports[0]}/metrics\n"
        f"simulator  {this.gemini_url}\n"
        f"try        GEMINI_WEBHOOK_SECRET={shlex.quote(this.secret)} {shlex.quote(sys.argv[0])}"
        f" trigger interaction.failed --to {this.url}\n"
        "Ctrl-C ends it."
    )
    with suppress(KeyboardInterrupt):
        while True:
            for line in children.wait_for(running, (), 0.5):
                show_line(this, line)
