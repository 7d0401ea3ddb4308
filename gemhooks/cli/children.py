"""Child processes of one command: started together, restarted when they die, stopped together."""

import base64
import os
import queue
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import gemhooks
from gemhooks.errors import Misconfigured

LONGEST_BACKOFF = 30.0  # seconds between two starts of a child that keeps dying
STOP_TIMEOUT = 30.0  # seconds a child has to end before it is killed


@dataclass(frozen=True)
class Program:
    """What to run: ``python -m`` *module* with *arguments*."""

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """One line that a child printed; None is its end."""

    name: str
    text: str | None


def clone() -> Path:
    """The folder that holds receiver/ and workers/: a clone, or the image.

    Raises Misconfigured where only the wheel is installed.
    """
    for place in (Path(gemhooks.__file__).parents[1], Path.cwd()):
        if all((place / name / "__main__.py").is_file() for name in ("receiver", "workers")):
            return place
    raise Misconfigured(
        "the receiver and the workers run from a clone of the repository or from the image;"
        " this is only the wheel."
    )


def new_secret() -> str:
    """A webhook secret for parts that are started together."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def application_env(program: Program) -> dict[str, str]:
    """Ours first for our applications: a user's package may be called workers too."""
    env = {**os.environ, **program.env}
    if program.module in ("receiver", "workers"):
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(clone()), env.get("PYTHONPATH"))))
        env["PYTHONSAFEPATH"] = "1"  # else the present folder would come before it
    return env


class Children:
    """A set of running programs whose output arrives as lines in one place."""

    def __init__(self) -> None:
        self.lines: queue.Queue[Line] = queue.Queue()
        self._running: dict[str, subprocess.Popen[str]] = {}
        self.programs: dict[str, Program] = {}
        self._failures: dict[str, int] = {}
        self._due: dict[str, float] = {}

    def start(self, program: Program) -> None:
        command = [sys.executable, "-m", program.module, *program.arguments]
        child = subprocess.Popen(  # noqa: S603 - our own interpreter and modules
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=application_env(program),
            # Ctrl-C is for us; we stop the children in our own order.
            start_new_session=True,
        )
        self.programs[program.name] = program
        self._running[program.name] = child
        self._due.pop(program.name, None)
        threading.Thread(target=self._read, args=(program.name, child), daemon=True).start()

    def _read(self, name: str, child: subprocess.Popen[str]) -> None:
        if child.stdout is not None:
            with child.stdout as output:
                for text in output:
                    self.lines.put(Line(name, text.rstrip("\n")))
        self.lines.put(Line(name, None))

    def ended(self) -> Iterator[tuple[str, int]]:
        """Name and exit code of each child that has just died."""
        for name, child in list(self._running.items()):
            code = child.poll()
            if code is not None:
                del self._running[name]
                self._failures[name] = self._failures.get(name, 0) + 1
                self._due[name] = time.monotonic() + self.backoff(name)
                yield name, code

    def backoff(self, name: str) -> float:
        return min(0.5 * 2.0 ** self._failures.get(name, 0), LONGEST_BACKOFF)

    def restart_due(self) -> list[str]:
        """Start again what died and has waited long enough."""
        due = [name for name, when in self._due.items() if when <= time.monotonic()]
        for name in due:
            self.start(self.programs[name])
        return due

    def stop(self) -> None:
        """SIGTERM to all, in the order of their start; what does not end in time is killed."""
        self._due.clear()
        for child in self._running.values():
            child.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT
        for child in self._running.values():
            try:
                child.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._running.clear()


def wait_for(children: Children, names: Sequence[str], seconds: float) -> Iterator[Line]:
    """Lines of the children for *seconds*; raises Misconfigured when one of *names* ends."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        try:
            line = children.lines.get(timeout=min(left, 0.2))
        except queue.Empty:
            continue
        if line.text is None and line.name in names:
            raise Misconfigured(
                f"the {line.name} ended before it should have; see its lines above."
            )
        yield line
