"""Run parts of the system: receiver, workers, consume, up."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from gemhooks import entry, loading
from gemhooks.cli import children
from gemhooks.cli.children import Children, Program
from gemhooks.consumers import Consumers


def receiver() -> None:
    """Take webhooks: verify, queue, answer."""
    _become("receiver")


def workers() -> None:
    """Run the built-in consumers: fetch what events point at."""
    _become("workers")


def _become(module: str) -> None:
    program = Program(module, module)
    command = [sys.executable, "-m", module]
    # In place of this process: signals and the exit code are the application's own.
    os.execve(sys.executable, command, children.application_env(program))  # noqa: S606


def consume(
    targets: Annotated[list[str], typer.Argument(help="module:consumers, several if you like")],
) -> None:
    """Run consumers of your own, from the present folder."""
    sys.path.insert(0, str(Path.cwd()))
    consumers = merge([load(target) for target in targets])
    from gemhooks import service  # noqa: PLC0415 - SQLAlchemy is slow to import, and --help is not
    from gemhooks.settings import Settings  # noqa: PLC0415

    raise typer.Exit(service.run(lambda _parts: consumers, Settings.from_env()))


def load(target: str) -> Consumers:
    """The Consumers object that ``module:name`` names; Misconfigured if there is none."""
    return loading.load(target, Consumers, default="consumers")


def merge(several: list[Consumers]) -> Consumers:
    merged = Consumers()
    for consumers in several:
        merged.include(consumers)
    return merged


def up(
    *,
    with_simulator: Annotated[
        bool, typer.Option("--with-simulator", help="a local Gemini beside it, for trying out")
    ] = False,
    simulator_port: Annotated[int, typer.Option(help="of the simulator")] = 8787,
) -> None:
    """Run receiver and workers on this machine until Ctrl-C; what dies is started again."""
    programs = [
        Program("receiver", "receiver"),
        Program("workers", "workers", env={"GEMHOOKS_ADMIN_PORT": "0"}),
    ]
    if with_simulator:
        arguments = ("simulate", "--port", str(simulator_port))
        programs.insert(0, Program("simulator", "gemhooks", arguments))
    raise typer.Exit(supervise(programs))


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
