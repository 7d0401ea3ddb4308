"""Programs under measurement: started, watched through /proc, ended."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS_PYTHON = ROOT / ".work/bench/bin/python"
PEERS_NODE = ROOT / ".work/bench-node"
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Program:
    """A started program and all its children."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path

    def cpu(self) -> float:
        """Seconds of processor time so far, user and system, of the whole family."""
        return sum(_stat_cpu(pid) for pid in self._family())

    def rss(self) -> float:
        """MiB resident now, of the whole family."""
        return sum(_pages(pid) for pid in self._family()) * PAGE / 2**20

    def check(self) -> None:
        """Raise RuntimeError with what it printed when it has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended: {self.output.read_text()[-2000:]}")

    def _family(self) -> list[int]:
        found, todo = [], [self.process.pid]
        while todo:
            found.append(todo.pop())
            todo += _children(found[-1])
        return found


@contextmanager
def running(
    name: str, command: Sequence[str], env: Mapping[str, str], folder: Path
) -> Iterator[Program]:
    """Run *command* from the repository's root; ended on the way out."""
    output = folder / f"{name}.log"
    with output.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment(env), stdout=file, stderr=file
        )
    try:
        yield Program(name, process, output)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """What a program under measurement sees: little of ours, and *more*."""
    inherited = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    return {**inherited, **more}


def ours(*arguments: str) -> list[str]:
    return [sys.executable, "-m", *arguments]


def peer(*arguments: str) -> list[str]:
    """A Python peer, from an environment of its own."""
    return [str(PEERS_PYTHON), "-m", *arguments]


def node(script: str) -> list[str]:
    """A Node peer; modules are looked up beside the script, so it runs as a copy beside them."""
    PEERS_NODE.mkdir(parents=True, exist_ok=True)
    copy = PEERS_NODE / script
    copy.write_bytes((ROOT / "bench/peers" / script).read_bytes())
    return ["node", str(copy)]


def _stat_cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def _pages(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    except OSError:
        return 0


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    except OSError:
        return []
    return [int(each) for each in text.split()]
