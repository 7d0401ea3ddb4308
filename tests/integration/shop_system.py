"""Simulator, receiver, workers and reconciler together, on RabbitMQ and PostgreSQL."""

import base64
import secrets
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pika

from gemhooks import jobs, topology
from gemhooks.ledger import Job, Ledgers
from gemhooks.settings import Settings
from gemhooks.simulator import Simulator
from tests.integration.processes import is_ready, process
from tests.services.ports import free_port
from tests.services.waiting import comes_true, eventually


@dataclass(frozen=True)
class System:
    """What a test needs of the running parts."""

    simulator: Simulator
    start: jobs.Starter
    admin_ports: Mapping[str, int]
    amqp_url: str
    folder: Path

    @property
    def ledgers(self) -> Ledgers:
        return self.start.register.ledgers

    @property
    def effects(self) -> list[str]:
        """One line a call of a function."""
        file = self.folder / "effects"
        return file.read_text().splitlines() if file.exists() else []

    def all_jobs(self) -> list[Job]:
        return list(self.ledgers.jobs.list(limit=100_000))

    def each(self, wanted: list[dict[str, Any]]) -> list[Job]:
        """Start interactions, several at once."""
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda one: self.start.interaction(**one), wanted))

    def follow(self, first: str) -> list[Job]:
        """An interaction and those that continued it."""
        found: list[Job] = []
        following: str | None = first
        while following and (job := self.ledgers.jobs.get("interaction", following)):
            found.append(job)
            continuation = self.ledgers.continuations.of(job.id)
            following = continuation.successor_id if continuation else None
        return found

    def wait_until_drained(self, seconds: float = 300.0) -> None:
        """Return once every queue is empty, dead letters included."""
        if not comes_true(lambda: not self.depths(), seconds):
            raise AssertionError(f"{self.depths()} are left: see {self.folder}")

    def depths(self) -> dict[str, int]:
        """How many messages each queue that is not empty holds, by the broker's own word."""
        names = [each.name for each in topology.BUILT_IN]
        names += [topology.dead_letters(name) for name in names] + [topology.UNROUTED]
        names += [topology.retry_name(rung) for rung in topology.RUNGS]
        with closing(pika.BlockingConnection(pika.URLParameters(self.amqp_url))) as connection:
            channel = connection.channel()
            counts = {
                name: channel.queue_declare(name, passive=True).method.message_count
                for name in names
            }
        return {name: count for name, count in counts.items() if count}


@contextmanager
def running(
    simulator: Simulator,
    urls: tuple[str, str],
    folder: Path,
    programs: Mapping[str, tuple[str, ...]],
    **more: str,
) -> Iterator[System]:
    """Run *programs*, by name, with *urls* of RabbitMQ and PostgreSQL."""
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    ports = {name: free_port() for name in programs}
    receiver = free_port()
    env = {
        "GEMHOOKS_BROKER_URL": urls[0],
        "GEMHOOKS_DATABASE_URL": urls[1],
        "GEMHOOKS_RESULTS_URL": str(folder / "results"),
        "GEMHOOKS_GEMINI_BASE_URL": simulator.url,
        "GEMHOOKS_FUNCTIONS": "tests.integration.shop:functions",
        "GEMINI_API_KEY": "test",
        "GEMINI_WEBHOOK_SECRET": secret,
        "GEMHOOKS_PORT": str(receiver),
        "GEMHOOKS_LOG_FORMAT": "json",
        # Whoever finds a continuation being sent comes back when these have passed.
        "GEMHOOKS_GEMINI_TIMEOUT": "8s",
        "GEMHOOKS_LEASE": "5s",
        **more,
    }
    with ExitStack() as stack:
        for name, arguments in programs.items():
            mine = {**env, "GEMHOOKS_ADMIN_PORT": str(ports[name])}
            mine["SHOP_EFFECTS"] = str(folder / "effects")
            stack.enter_context(process(*arguments, log=folder / f"{name}.log", env=mine))
        for name, port in ports.items():
            eventually(is_ready(port), why=f"{name} is ready: see the logs in {folder}")
        simulator.subscribe(f"http://127.0.0.1:{receiver}/webhooks/gemini", secret)
        start = stack.enter_context(jobs.connect(Settings.from_env(env)))
        yield System(simulator, start, ports, urls[0], folder)
