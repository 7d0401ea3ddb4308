"""The wheel in an empty environment outside the clone, beside a user's own `workers` package."""

import os
import subprocess
import sys
import time
from pathlib import Path

from release.tree import NotReady

PATIENCE = 120.0  # seconds
CONSUMER = """
from gemhooks import Consumers, events

consumers = Consumers()


@consumers.on(events.InteractionFetched, queue="trial")
def show(event: events.InteractionFetched) -> None:
    print(f"seen: {event.data.text}", flush=True)
"""
PUBLISHER = """
from gemhooks import topology
from gemhooks.queues.connect import connect
from gemhooks.testing import message
from workers.consumers import consumers

broker = connect("sqlite:///queue.db", publish_timeout=30)
broker.declare(consumers.queues())
told = message("interaction.fetched", text="it works")
broker.publisher.publish(told, exchange=topology.RESULTS).result(30)
broker.close()
"""


def run(wheel: Path, folder: Path, *, packages: Path | None = None) -> None:
    """NotReady where it does not run; *packages* has its dependencies, else they are installed."""
    python = environment(wheel, folder / "venv", packages)
    mine = folder / "mine"
    (mine / "workers").mkdir(parents=True)
    (mine / "workers" / "__init__.py").touch()
    (mine / "workers" / "consumers.py").write_text(CONSUMER, "utf-8")
    (mine / "publish.py").write_text(PUBLISHER, "utf-8")
    env = _env(mine)
    _do([str(python), "publish.py"], mine, {**env, "PYTHONPATH": str(mine)})
    command = [str(python.with_name("gemhooks")), "consume", "workers.consumers:consumers"]
    said = _until("seen: it works", command, mine, env)
    if "seen: it works" not in said:
        raise NotReady(f"the installed consumer has seen nothing: {said[-2000:]}")


def environment(wheel: Path, folder: Path, packages: Path | None) -> Path:
    """Its Python."""
    _do([sys.executable, "-m", "venv", str(folder)], wheel.parent, dict(os.environ))
    python = folder / "bin" / "python"
    more = ["--no-deps"] if packages else []
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *more]
    _do([*install, str(wheel)], folder, dict(os.environ))
    if packages:  # a line in a .pth file is a place to look in, after the environment's own
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "dependencies.pth").write_text(f"{packages}\n", "utf-8")
    return python


def _env(mine: Path) -> dict[str, str]:
    plain = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    ours = {
        "GEMHOOKS_BROKER_URL": "sqlite:///queue.db",
        "GEMHOOKS_DATABASE_URL": "sqlite:///ledger.db",
        "GEMHOOKS_ADMIN_PORT": "0",
    }
    return {**plain, **ours, "HOME": str(mine)}


def _do(command: list[str], cwd: Path, env: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotReady(f"{' '.join(command[-3:])}: {(done.stderr or done.stdout).strip()[-2000:]}")


def _until(text: str, command: list[str], cwd: Path, env: dict[str, str]) -> str:
    """Run *command* until it has said *text*, or for PATIENCE; what it said."""
    log = cwd / "log"
    with log.open("wb") as output:
        child = subprocess.Popen(command, cwd=cwd, env=env, stdout=output, stderr=output)
    deadline = time.monotonic() + PATIENCE
    try:
        while text not in log.read_text("utf-8") and child.poll() is None:
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
    finally:
        child.terminate()
        child.wait(60)
    return log.read_text("utf-8")
