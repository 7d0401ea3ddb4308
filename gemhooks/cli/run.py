"""Run parts of the system: receiver, workers, consume, up."""

import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gemhooks import entry, loading, topology
from gemhooks.cli import children
from gemhooks.cli.children import Children, Program
from gemhooks.consumers import Consumers
from gemhooks.errors import Misconfigured

if TYPE_CHECKING:  # importing it takes SQLAlchemy's time
    from gemhooks.service import Parts

Build = Callable[[Any], Consumers]


def receiver() -> None:
    """Take webhooks: verify, queue, answer."""
    _become("receiver")


def workers() -> None:
    """Run the built-in consumers: fetch what events point at."""
    _become("workers")


def reconcile() -> None:
    """Look up the jobs that no event told about, and tell in Gemini's place."""
    _become("workers", "reconcile")


def _become(module: str, *arguments: str) -> None:
    program = Program(module, module, arguments)
    command = [sys.executable, "-m", module, *arguments]
    # In place of this process: signals and the exit code are the application's own.
    os.execve(sys.executable, command, children.application_env(program))  # noqa: S606


def consume(
    targets: Annotated[
        list[str],
        typer.Argument(help="module:consumers or module:build, several if you like"),
    ],
    *,
    queue: Annotated[list[str] | None, typer.Option(help="serve only this one; repeatable")] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=1000, help="handlers at once")
    ] = None,
) -> None:
    """Run consumers of your own, from the present folder.

    A target is a Consumers object, or a function that makes one from what the process has to offer
    (gemhooks.service.Parts: settings, broker, ledgers).
    """
    sys.path.insert(0, str(Path.cwd()))
    from msgspec.structs import replace  # noqa: PLC0415

    from gemhooks import service  # noqa: PLC0415 - SQLAlchemy is slow to import, and --help is not
    from gemhooks.settings import Settings  # noqa: PLC0415

    found = {target: load(target) for target in targets}
    settings = Settings.from_env()
    if concurrency is not None:
        settings = replace(settings, concurrency=concurrency)
    raise typer.Exit(service.run(lambda parts: merge(found, parts, queue or []), settings))


def load(target: str) -> Consumers | Build:
    """What ``module:name`` names; Misconfigured where it is neither Consumers nor makes them."""
    try:
        return loading.load(target, Consumers, default="consumers")
    except (TypeError, ValueError) as error:  # a handler that doesn't fit its event
        raise Misconfigured(f"{error}") from error
    except Misconfigured:
        build = loading.find(target)
        if not inspect.isfunction(build):
            raise
        return build


def merge(several: dict[str, Consumers | Build], parts: "Parts", queues: list[str]) -> Consumers:
    merged = Consumers()
    try:
        for target, each in several.items():
            consumers = each if isinstance(each, Consumers) else each(parts)
            if not consumers:  # it would run, and look well
                raise Misconfigured(f"{target} has no handler: add one with @consumers.on(...).")
            merged.include(consumers)
        chosen = merged.only(queues) if queues else merged
    except (TypeError, ValueError) as error:
        raise Misconfigured(f"{error}") from error
    for queue in chosen.queues():
        if why := topology.unfit(queue):
            raise Misconfigured(f"the queue {queue.name} {why}.")
    return chosen


def up(
    *,
    with_simulator: Annotated[
        bool, typer.Option("--with-simulator", help="a local Gemini beside it, for trying out")
    ] = False,
    simulator_port: Annotated[int, typer.Option(help="of the simulator")] = 8787,
) -> None:
    """Run receiver, workers and reconciler on this machine until Ctrl-C; what dies is restarted."""
    programs = [
        Program("receiver", "receiver"),
        Program("workers", "workers", env={"GEMHOOKS_ADMIN_PORT": "0"}),
        Program("reconciler", "workers", ("reconcile",), env={"GEMHOOKS_ADMIN_PORT": "0"}),
    ]
    if with_simulator:
        programs = beside_a_simulator(programs, simulator_port)
    raise typer.Exit(supervise(programs))


def beside_a_simulator(programs: list[Program], port: int) -> list[Program]:
    """A local Gemini that calls our receiver, and *programs* that ask it and know its secret."""
    from gemhooks.settings import Settings  # noqa: PLC0415 - see consume

    held = os.environ.get("GEMINI_WEBHOOK_SECRET", "").replace(",", " ").split()
    secret = held[0] if held else children.new_secret()
    receiver = f"http://127.0.0.1:{Settings.from_env().port}/webhooks/gemini"
    arguments = ("simulate", "--port", str(port), "--webhook", receiver)
    ours = {
        "GEMHOOKS_GEMINI_BASE_URL": f"http://127.0.0.1:{port}",
        "GEMINI_API_KEY": os.environ.get("GEMINI_API_KEY") or "simulated",
        "GEMINI_WEBHOOK_SECRET": secret,
        "GEMINI_WEBHOOK_SECRET_FILE": "",  # a file would count before the variable
    }
    simulator = Program("simulator", "gemhooks", arguments, {"SIMULATOR_SECRET": secret})
    return [simulator, *(replace(each, env={**each.env, **ours}) for each in programs)]


def supervise(programs: list[Program]) -> int:
    """Pass on the children's lines and restart them; 0 after Ctrl-C, 2 if one is misconfigured."""
    from gemhooks.service import stop_event  # noqa: PLC0415 - see consume

    running, stop = Children(), stop_event()
    for program in programs:
        running.start(program)
    try:
        while not stop.is_set():
            pass_on(running)
            for name, code in running.ended():
                if code == entry.MISCONFIGURED:
                    pass_on(running)  # its one sentence
                    return entry.MISCONFIGURED
                typer.echo(f"gemhooks: the {name} ended with {code}; starting it again.", err=True)
            running.restart_due()
    finally:
        running.stop()
    return 0


def pass_on(running: Children) -> None:
    for line in children.wait_for(running, (), 0.2):
        if line.text:
            typer.echo(f"{line.name:<10}| {line.text}")
