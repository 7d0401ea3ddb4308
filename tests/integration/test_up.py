"""Everything on one machine in one command."""

import os
import re
import signal
import subprocess
from pathlib import Path

import urllib3

from tests.integration.processes import is_ready, process
from tests.services.ports import free_port
from tests.services.waiting import eventually


def children_of(parent: int) -> dict[str, int]:
    """Pids of the direct children, by what they run."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(parent)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    found = re.findall(r"^\s*(\d+) .* -m (\w+(?: reconcile)?)", listed, flags=re.MULTILINE)
    return {program: int(pid) for pid, program in found}


def ask(simulator: int) -> str:
    """Start an interaction, as any client of Gemini would; its id."""
    answer = urllib3.request(
        "POST",
        f"http://127.0.0.1:{simulator}/v1/interactions",
        json={"model": "gemini-3.8-flash", "input": "Hello?", "background": True},
        headers={"x-goog-api-key": "any"},
    )
    return str(answer.json()["id"])


def test_a_child_that_dies_is_started_again_and_all_end_on_sigterm(tmp_path: Path) -> None:
    admin, simulator = free_port(), free_port()
    env = {
        "GEMHOOKS_BROKER_URL": f"sqlite:///{tmp_path}/queue.db",
        "GEMHOOKS_DATABASE_URL": f"sqlite:///{tmp_path}/ledger.db",
        "GEMHOOKS_RESULTS_URL": str(tmp_path / "results"),
        "GEMHOOKS_PORT": str(free_port()),
        "GEMHOOKS_ADMIN_PORT": str(admin),
    }
    arguments = ("gemhooks", "up", "--with-simulator", "--simulator-port", str(simulator))
    with process(*arguments, log=tmp_path / "up.log", env=env) as up:
        eventually(is_ready(admin), why="the receiver is ready")
        eventually(lambda: len(children_of(up.pid)) == 4, why="four children run")
        before = children_of(up.pid)
        os.kill(before["receiver"], signal.SIGKILL)
        eventually(
            lambda: children_of(up.pid).get("receiver", before["receiver"]) != before["receiver"],
            why="the receiver is started again",
        )
        eventually(is_ready(admin), why="it is ready again")
        stored = tmp_path / "results" / "interactions" / f"{ask(simulator)}.json"
        eventually(stored.exists, why="the simulator calls back and the result is stored")
        after = children_of(up.pid)
        up.terminate()

        assert up.wait(60) == 0
        assert not [pid for pid in after.values() if Path(f"/proc/{pid}").exists()]
