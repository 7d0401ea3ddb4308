"""A worker that is killed at random bytes of one download, and begins again."""

import hashlib
import json
import random
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.batch_worker import COUNTER
from bench.processes import ROOT, environment, ours
from gemhooks import topology
from gemhooks.heads import bare_id
from gemhooks.messages import Broker, Message
from gemhooks.queues.connect import connect

LONGEST = 120.0  # seconds for anything to become true
PAUSE = 0.001  # seconds between two looks


@dataclass(frozen=True)
class Killed:
    """How a download ended that was killed again and again.

    A message whose workers die and never get further is a dead letter; *replays* is how often it
    was sent back.
    """

    kills: int
    replays: int
    identical: bool
    twice: float  # share of the file that was received a second time


@dataclass
class World:
    """All that outlives the workers; *name* is the batch's."""

    folder: Path
    name: str
    env: dict[str, str]
    broker: Broker
    replays: int = 0

    @property
    def stored(self) -> Path:
        return self.folder / "results/batches" / bare_id(self.name)

    @property
    def arrived(self) -> int:
        """Bytes, of the file that is on its way or of the whole one."""
        places = ((self.folder / "results/.partial").glob("*"), self.stored.glob("rows.jsonl"))
        return sum(each.stat().st_size for place in places for each in place)

    @property
    def is_whole(self) -> bool:
        return (self.stored / "summary.json").exists()

    @property
    def received(self) -> int:
        (received,) = struct.unpack("<q", (self.folder / "counter").read_bytes())
        return int(received)

    def begin(self) -> None:
        """Say, as the receiver would, that the batch has succeeded."""
        kind = "batch.succeeded"
        body = json.dumps({"type": kind, "data": {"id": self.name}}).encode()
        self.broker.declare([*topology.BUILT_IN])
        self.broker.publisher.publish(Message("msg_batch", kind, body)).result(30)

    @contextmanager
    def worker(self) -> "Iterator[subprocess.Popen[bytes]]":
        with (self.folder / "workers.log").open("ab") as log:
            process = subprocess.Popen(
                ours("bench.batch_worker"), cwd=ROOT, env=self.env, stdout=log, stderr=log
            )
            try:
                yield process
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)

    def wait(self, process: "subprocess.Popen[bytes]", until: Callable[[], bool]) -> None:
        """Return once it is so; a dead letter is sent back meanwhile, as a person would."""
        deadline = looked = time.monotonic()
        while not until():
            time.sleep(PAUSE)
            if process.poll() is not None or time.monotonic() > deadline + LONGEST:
                log = (self.folder / "workers.log").read_text("utf-8")
                raise RuntimeError(f"the worker ended, or does not go on: {log[-2000:]}")
            if time.monotonic() > looked + 1:
                self.replay()
                looked = time.monotonic()

    def replay(self) -> None:
        if self.broker.browse(f"{topology.BATCHES.name}.dlq", 1):
            command = ours("gemhooks", "dlq", "replay", "--all")
            subprocess.run(command, cwd=ROOT, env=self.env, check=True, capture_output=True)
            self.replays += 1


@contextmanager
def world(url: str, name: str, folder: Path) -> Iterator[World]:
    (folder / "counter").write_bytes(bytes(8))
    queue = f"sqlite:///{folder}/queue.db"
    env = {
        "GEMHOOKS_BROKER_URL": queue,
        "GEMHOOKS_DATABASE_URL": f"sqlite:///{folder}/ledger.db",
        "GEMHOOKS_RESULTS_URL": f"{folder}/results",
        "GEMHOOKS_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": "any",
        "GEMHOOKS_ADMIN_PORT": "0",
        "GEMHOOKS_LEASE": "1s",
        COUNTER: str(folder / "counter"),
    }
    with closing(connect(queue, publish_timeout=30)) as broker:
        yield World(folder, name, environment(env), broker)


def killed(url: str, name: str, original: Path, *, kills: int, seed: int = 1) -> Killed:
    """Kill the worker at random bytes, *kills* times in one download; compare with *original*."""
    dice, whole = random.Random(seed), original.stat().st_size  # noqa: S311 - no secret
    with (
        TemporaryDirectory(dir=original.parent, prefix="killed-") as folder,
        world(url, name, Path(folder)) as made,
    ):
        made.begin()
        places = sorted(dice.randrange(whole) for _ in range(kills))
        done = sum(kill_at(at, made) for at in places)
        with made.worker() as process:
            made.wait(process, lambda: made.is_whole)
        identical = digest(made.stored / "rows.jsonl") == digest(original)
        return Killed(done, made.replays, identical, (made.received - whole) / whole)


def kill_at(at: int, made: World) -> bool:
    """Kill a worker that fetches, once so many bytes have arrived; False if that was too late."""
    with made.worker() as process:
        before = made.received
        made.wait(process, lambda: made.is_whole or (made.received > before and made.arrived >= at))
        process.kill()
        return not made.is_whole


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
