"""``gemhooks demo``: the whole way of an event, on this machine, on embedded parts."""

import shlex
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from gemhooks.cli import children
from gemhooks.cli.children import Children, Line, Program
from gemhooks.cli.tables import Format, show
from gemhooks.errors import Unavailable

QUESTIONS = ("What is a webhook?", "Why sign one?", "Who sends it again?")
START_TIMEOUT = 60.0  # seconds; a cold machine compiles bytecode first
EVENTS_TIMEOUT = 60.0
COLUMNS = ("interaction", "question", "status", "result")


@dataclass
class Demo:
    """What the demo knows of its parts, and what it has seen pass."""

    folder: Path
    port: int
    admin_ports: tuple[int, int, int]
    questions: dict[str, str] = field(default_factory=dict)  # by interaction id
    fetched: set[str] = field(default_factory=set)
    answered: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/webhooks/gemini"

    @property
    def is_over(self) -> bool:
        return len(self.fetched) >= len(QUESTIONS) and self.answered >= len(QUESTIONS)


def demo(
    *,
    keep: Annotated[bool, typer.Option("--keep", help="leave it running until Ctrl-C")] = False,
) -> None:
    """See the whole way: ask, be called back, verify, queue, fetch, store, consume."""
    from gemhooks.simulator.server import Simulator  # noqa: PLC0415 - an extra, imported late

    # Without this, SIGTERM would leave the children behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = time.monotonic()
    this = Demo(new_folder(), free_port(), (free_port(), free_port(), free_port()))
    with Simulator(delay=0.3) as simulator, running_children(this, simulator) as running:
        watch_until(running, lambda: all(map(is_ready, this.admin_ports)), START_TIMEOUT, this)
        ask(this, simulator)
        watch_until(running, lambda: this.is_over, EVENTS_TIMEOUT, this)
        report(this, time.monotonic() - started)
        if keep:
            keep_running(this, simulator, running)


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


@contextmanager
def running_children(this: Demo, simulator: Any) -> Iterator[Children]:
    """Receiver, built-in workers and the example consumer, stopped at the end."""
    running = Children()
    secret = subscribe(this, simulator)
    try:
        for program in programs(this, simulator.url, secret):
            running.start(program)
        yield running
    finally:
        running.stop()


def subscribe(this: Demo, simulator: Any) -> str:
    """Create the webhook through Google's own client; returns its signing secret."""
    with client(simulator.url) as gemini:
        webhook = gemini.webhooks.create(
            uri=this.url,
            subscribed_events=[
                "interaction.completed",
                "interaction.failed",
                "interaction.requires_action",
            ],
            name="demo",
        )
    return str(webhook.new_signing_secret)


def programs(this: Demo, gemini_url: str, secret: str) -> list[Program]:
    common = {
        "GEMHOOKS_BROKER_URL": f"sqlite:///{this.folder}/queue.db",
        "GEMHOOKS_DATABASE_URL": f"sqlite:///{this.folder}/ledger.db",
        "GEMHOOKS_RESULTS_URL": f"{this.folder}/results",
        "GEMHOOKS_GEMINI_BASE_URL": gemini_url,
        "GEMINI_API_KEY": "demo",
        "GEMINI_WEBHOOK_SECRET": secret,
        "GEMHOOKS_HOST": "127.0.0.1",
        "GEMHOOKS_PORT": str(this.port),
        "GEMHOOKS_LOG_FORMAT": "json",
        "GEMHOOKS_LOG_LEVEL": "info",
        "PYTHONUNBUFFERED": "1",
    }
    example = str(children.clone() / "examples")
    one, two, three = ({**common, "GEMHOOKS_ADMIN_PORT": str(each)} for each in this.admin_ports)
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


def client(url: str) -> Any:
    from gemhooks.gemini import official_client  # noqa: PLC0415 - google.genai takes a second

    return official_client("demo", base_url=url)


def is_ready(port: int) -> bool:
    with suppress(OSError):
        url = f"http://127.0.0.1:{port}/readyz"
        with urllib.request.urlopen(url, timeout=1.0) as answer:
            return int(answer.status) == 200  # noqa: PLR2004 - HTTP's OK
    return False


def ask(this: Demo, simulator: Any) -> None:
    """Start interactions through Google's own client; Gemini will call back."""
    with client(simulator.url) as gemini:
        for question in QUESTIONS:
            interaction = gemini.interactions.create(
                model="gemini-3.8-flash", input=question, background=True
            )
            this.questions[str(interaction.id)] = question
            typer.echo(f"asked      {str(interaction.id)[:16]}... {question}")


def watch_until(running: Children, is_over: Any, seconds: float, this: Demo) -> None:
    """Show what the children say until *is_over*; raises Unavailable when it takes too long."""
    deadline = time.monotonic() + seconds
    names = ("receiver", "workers", "consumer")
    while not is_over():
        if time.monotonic() > deadline:
            raise Unavailable("the demo did not come to its end; see the lines above.")
        for line in children.wait_for(running, names, 0.05):
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
    elif said.get("level") in ("warning", "error", "critical"):
        typer.echo(f"{line.name:<10} {line.text}", err=True)


def event_line(name: str, said: dict[str, Any]) -> str:
    place = said.get("queue") or "-"
    return (
        f"{name:<10} {said.get('event_type', ''):<22} {said.get('webhook_id', '')[:16]:<16}"
        f" {place:<22} {said.get('outcome', ''):<10} {said.get('milliseconds', 0):>7} ms"
    )


def note(this: Demo, said: dict[str, Any]) -> None:
    if said["event"] != "message_handled" or said.get("outcome") != "done":
        return
    if said.get("queue") == "gemhooks.interactions":
        this.fetched.add(str(said.get("webhook_id")))
    elif said.get("queue") == "gemhooks.answers":
        this.answered += 1


def report(this: Demo, seconds: float) -> None:
    """A short table of what came out, and where it lies."""
    folder = this.folder / "results" / "interactions"
    rows = []
    for interaction, question in this.questions.items():
        path = folder / f"{interaction}.json"
        stored = orjson.loads(path.read_bytes()) if path.is_file() else {}
        result = path.name if stored else "missing"
        rows.append(
            {
                "interaction": interaction[:16] + "...",
                "question": question,
                "status": stored.get("status", "missing"),
                "result": result[:20] + "...",
            }
        )
    show(rows, COLUMNS, Format.TABLE)
    typer.echo(f"results in {folder}\ndone in {seconds:.1f} s")
    if any(row["status"] != "completed" for row in rows):
        raise Unavailable("not every interaction came out completed; see the lines above.")


def keep_running(this: Demo, simulator: Any, running: Children) -> None:
    """Print where everything is, then go on showing events until Ctrl-C."""
    secret = programs_secret(running)
    typer.echo(
        f"\nreceiver   {this.url}\n"
        f"metrics    http://127.0.0.1:{this.admin_ports[0]}/metrics\n"
        f"simulator  {simulator.url}\n"
        f"try        GEMINI_WEBHOOK_SECRET={shlex.quote(secret)} {shlex.quote(sys.argv[0])}"
        f" trigger interaction.failed --to {this.url}\n"
        "Ctrl-C ends it."
    )
    with suppress(KeyboardInterrupt):
        while True:
            for line in children.wait_for(running, (), 0.5):
                show_line(this, line)


def programs_secret(running: Children) -> str:
    return running.programs["receiver"].env["GEMINI_WEBHOOK_SECRET"]
