"""Everything on one machine in one command."""

import os
import re
import signal
import subprocess
from pathlib import Path

from tests.integration.processes import eventually, free_port, is_ready, process


def children_of(parent: int) -> dict[str, int]:
    """Pids of the direct children, by the module they run."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(parent)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    found = re.findall(r"^\s*(\d+) .* -m (\w+)", listed, flags=re.MULTILINE)
    return {module: int(pid) for pid, module in found}


def test_a_child_that_dies_is_started_again_and_all_end_on_sigterm(tmp_path: Path) -> None:
    admin = free_port()
    env = {
        "GEMHOOKS_BROKER_URL": f"sqlite:///{tmp_path}/queue.db",
        "GEMHOOKS_DATABASE_URL": f"sqlite:///{tmp_path}/ledger.db",
        "GEMHOOKS_RESULTS_URL": str(tmp_path / "results"),
        "GEMINI_WEBHOOK_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "GEMINI_API_KEY": "k",
        "GEMHOOKS_PORT": str(free_port()),
        "GEMHOOKS_ADMIN_PORT": str(admin),
    }
    arguments = ("gemhooks", "up", "--with-simulator", "--simulator-port", str(free_port()))
    with process(*arguments, log=tmp_path / "up.log", env=env) as up:
        eventually(is_ready(admin), why="the receiver is ready")
        eventually(lambda: len(children_of(up.pid)) == 3, why="three children run")
        before = children_of(up.pid)
        os.kill(before["receiver"], signal.SIGKILL)
        eventually(
            lambda: children_of(up.pid).get("receiver", before["receiver"]) != before["receiver"],
            why="the receiver is started again",
        )
        eventually(is_ready(admin), why="it is ready again")
        after = children_of(up.pid)
        up.terminate()

        assert up.wait(60) == 0
        assert not [pid for pid in after.values() if Path(f"/proc/{pid}").exists()]
