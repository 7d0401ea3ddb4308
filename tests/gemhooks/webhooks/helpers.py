"""A real receiver beside the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.integration.processes import is_ready, process
from tests.services.ports import free_port
from tests.services.waiting import eventually


@dataclass(frozen=True)
class RunningReceiver:
    uri: str
    admin: str


@contextmanager
def receiver(
    folder: Path, secret: Path, *, broker: str = "", ports: tuple[int, int] | None = None
) -> Iterator[RunningReceiver]:
    """``python -m receiver``, with the secrets in *secret*, a file or a folder."""
    port, admin = ports or (free_port(), free_port())
    env = {
        "GEMHOOKS_BROKER_URL": broker or f"sqlite:///{folder}/queue.db",
        "GEMINI_WEBHOOK_SECRET_FILE": str(secret),
        "GEMHOOKS_PORT": str(port),
        "GEMHOOKS_ADMIN_PORT": str(admin),
        "GEMHOOKS_PUBLISH_TIMEOUT": "60s",
    }
    with process("receiver", log=folder / "receiver.log", env=env):
        eventually(is_ready(admin), why="the receiver is ready")
        yield RunningReceiver(
            f"http://127.0.0.1:{port}/webhooks/gemini", f"http://127.0.0.1:{admin}"
        )
