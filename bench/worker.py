"""``make bench-worker``: our consumer and its peers, in turn, on one private RabbitMQ node.

Each takes the same number of events from a queue that was filled before it started; the clock runs
from its first handler call to its last.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles

import pika
import urllib3
from pika.adapters.blocking_connection import BlockingChannel
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench import figures, filling, load, receiver
from bench.processes import ROOT, node, ours, peer, running
from bench.stats import Ratio, ratio
from gemhooks import logs, topology
from gemhooks.queues.rabbitmq import RabbitBroker
from tests.services.ports import free_port
from tests.services.postgresql import PostgresServer
from tests.services.rabbitmq import RabbitNode
from tests.services.waiting import wait_until

OURS = "gemhooks"
ON_POSTGRESQL = "gemhooks, PostgreSQL ledger"
PEERS = ("faststream", "celery", "dramatiq", "amqplib")
FRONTS = {OURS: receiver.OURS, "faststream": "faststream"}  # each behind a receiver of its kind
PREFETCH = 200
PER_SECOND = 100
QUORUM = {"x-queue-type": "quorum"}
console = Console()


@dataclass(frozen=True)
class Place:
    """Where all of them run."""

    amqp_url: str
    postgres_url: str
    folder: Path


@dataclass(frozen=True)
class Contender:
    """A consumer: how it is started and what its queue holds."""

    name: str
    command: list[str]
    queue: str
    ledger: str = ""
    dramatiq: bool = False


@dataclass(frozen=True)
class Delay:
    """From the POST to the handler's start, in ms."""

    p50: float
    p99: float

    def __str__(self) -> str:
        return f"p50 {self.p50:.1f} ms, p99 {self.p99:.1f} ms"


@dataclass(frozen=True)
class Run:
    """What a contender wrote down."""

    rate: float
    cpu_us: float
    rss_mib: float


def contenders(place: Place) -> list[Contender]:
    own = topology.queue_name("bench")
    sqlite = f"sqlite:///{place.folder}/ledger.db"
    return [
        Contender(OURS, ours("bench.our_worker"), own, "off"),
        Contender("gemhooks, SQLite ledger", ours("bench.our_worker"), own, sqlite),
        Contender(ON_POSTGRESQL, ours("bench.our_worker"), own, place.postgres_url),
        Contender("faststream", faststream(), "bench-faststream"),
        Contender("celery", celery(), "bench-celery"),
        Contender("dramatiq", dramatiq(), "bench-dramatiq", dramatiq=True),
        Contender("amqplib", node("amqplib_worker.mjs"), "bench-amqplib"),
        Contender("pika alone", peer("bench.peers.pika_worker"), "bench-pika"),
    ]


def faststream() -> list[str]:
    return peer("faststream", "run", "bench.peers.faststream_worker:app")


def celery() -> list[str]:
    options = ("--pool", "solo", "--loglevel", "ERROR", "--without-gossip", "--without-mingle")
    return peer("celery", "-A", "bench.peers.celery_worker", "worker", *options)


def dramatiq() -> list[str]:
    return peer("dramatiq", "--processes", "1", "--threads", "1", "bench.peers.dramatiq_worker")


@contextmanager
def placed() -> Iterator[Place]:
    folder = Path(tempfile.mkdtemp(prefix="gemhooks-bench-"))
    try:
        with (
            RabbitNode() as broker,
            broker.vhost() as amqp_url,
            PostgresServer() as server,
            server.database() as postgres_url,
        ):
            yield Place(amqp_url, postgres_url, folder)
    finally:
        shutil.rmtree(folder)


def main() -> None:
    options = _options()
    logs.configure("console", "warning")  # ours, between the runs: the table is what counts
    with placed() as place:
        idle_memory(place)  # the first start may have to compile, which takes memory
        idle = idle_memory(place)  # before the rest: it would leave it messages to handle
        runs = measure(place, options)
        delays = latencies(place, options.latency_seconds, options.repeat)
    report(runs, delays, idle)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000, help="per run")
    parser.add_argument("--repeat", type=int, default=5, help="alternations")
    parser.add_argument("--latency-seconds", type=int, default=10, help="of each alternation")
    parser.add_argument("--only", nargs="+", help="names of contenders")
    return parser.parse_args()


def measure(place: Place, options: argparse.Namespace) -> dict[str, list[Run]]:
    field = [each for each in contenders(place) if not options.only or each.name in options.only]
    plan = [each for _ in range(options.repeat) for each in field]
    runs: dict[str, list[Run]] = {}
    for contender in track(plan, "measuring", console=Console(stderr=True)):
        runs.setdefault(contender.name, []).append(one_run(place, contender, options.events))
    return runs


def one_run(place: Place, contender: Contender, count: int) -> Run:
    make: Callable[[int], filling.Content] = filling.plain
    if contender.name == "celery":
        make = filling.celery
    elif contender.dramatiq:
        make = filling.dramatiq(contender.queue)
    with declared(place, contender):
        filling.fill(place.amqp_url, contender.queue, count, make)
        found = consumed(place, contender, count)
    return Run(**json.loads(found))


def consumed(place: Place, contender: Contender, count: int, *, timed: bool = False) -> str:
    """Run it until it has written down what it saw."""
    with consuming(place, contender, count, timed=timed) as out:
        return out.read_text("ascii")


@contextmanager
def consuming(
    place: Place, contender: Contender, count: int, *, timed: bool = False
) -> Iterator[Path]:
    out = place.folder / "out.json"
    out.unlink(missing_ok=True)
    env = environment(place, contender, out, count) | ({"TIMED": "1"} if timed else {})
    with running("consumer", contender.command, env, place.folder) as program:

        def has_ended() -> bool:
            program.check()
            return out.exists()

        if not timed:
            wait_until(has_ended, f"all events in {contender.name}", seconds=300)
        yield out


def environment(place: Place, contender: Contender, out: Path, count: int) -> dict[str, str]:
    return {
        "AMQP_URL": place.amqp_url,
        "QUEUE": contender.queue.removeprefix("gemhooks."),
        "PREFETCH": str(PREFETCH),
        "COUNT": str(count),
        "OUT": str(out),
        "LEDGER": contender.ledger,
        "dramatiq_prefetch": str(PREFETCH),
        "GEMHOOKS_BROKER_URL": place.amqp_url,
        "GEMHOOKS_PREFETCH": str(PREFETCH),
        "GEMHOOKS_ADMIN_PORT": "0",
        "PYTHONPATH": str(ROOT),
    }


@contextmanager
def declared(place: Place, contender: Contender) -> Iterator[None]:
    """An empty queue, as the contender itself would declare it; gone afterwards."""
    if contender.queue == topology.queue_name("bench"):
        broker = RabbitBroker(place.amqp_url)
        kind = ((topology.EVENTS, "interaction.completed"),)
        broker.declare([topology.Queue(contender.queue, kind)])
        broker.close()
    with channel(place.amqp_url) as opened:
        if contender.dramatiq:
            dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "bench-dramatiq.XQ"}
            opened.queue_declare(contender.queue, durable=True, arguments=dead)
        elif contender.queue != topology.queue_name("bench"):
            opened.queue_declare(contender.queue, durable=True, arguments=QUORUM)
        opened.queue_purge(contender.queue)
        yield
        opened.queue_purge(contender.queue)


@contextmanager
def channel(amqp_url: str) -> Iterator[BlockingChannel]:
    parameters = pika.URLParameters(amqp_url)
    parameters.heartbeat = 0  # nobody serves it while a contender runs
    connection = pika.BlockingConnection(parameters)
    try:
        yield connection.channel()
    finally:
        connection.close()


def latencies(place: Place, seconds: int, repeat: int) -> dict[str, list[Delay]]:
    """Each consumer behind its own receiver, in turn, *seconds* each time."""
    by_name = {each.name: each for each in contenders(place)}
    found: dict[str, list[Delay]] = {name: [] for name in FRONTS}
    plan = [*FRONTS.items()] * repeat
    for name, front in track(plan, "latencies", console=Console(stderr=True)):
        found[name].append(delay(place, by_name[name], front, seconds))
    return found


def delay(place: Place, contender: Contender, front: str, seconds: int) -> Delay:
    count = seconds * PER_SECOND
    with declared(place, contender), fronted(place, contender, front) as port:
        warm = 20  # until the consumer is there
        with consuming(place, contender, count + warm, timed=True) as out:
            for _ in range(warm):
                post(port)
            wait_until(lambda: depth(place, contender.queue) == 0, "warm-up")
            send(port, count)
            wait_until(out.exists, f"latencies of {contender.name}")
            seen = json.loads(out.read_text("ascii"))[warm:]
    hundredths = quantiles(seen, n=100)
    return Delay(hundredths[49] / 1e6, hundredths[98] / 1e6)


@contextmanager
def fronted(place: Place, contender: Contender, front: str) -> Iterator[int]:
    port = free_port()
    env = receiver.environment(place.amqp_url, port, place.folder) | {"QUEUE": contender.queue}
    with running("front", receiver.commands(port)[front], env, place.folder) as program:

        def answers() -> bool:
            program.check()
            try:
                return post(port) == 204
            except urllib3.exceptions.HTTPError:
                return False

        wait_until(answers, f"start of {front}")
        with channel(place.amqp_url) as opened:
            opened.queue_purge(contender.queue)
        yield port


def send(port: int, count: int) -> None:
    """At a steady pace, whatever each answer takes."""
    started = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, started + number / PER_SECOND - time.monotonic()))
        post(port)


POOL = urllib3.PoolManager()


def post(port: int) -> int:
    event = json.loads(load.body(0))
    event["data"]["user_metadata"]["sent"] = time.monotonic_ns()
    content = json.dumps(event).encode()
    headers = load.headers(receiver.SECRET, time.monotonic_ns(), content)
    headers["Content-Type"] = "application/json"
    url = f"http://127.0.0.1:{port}{load.PATH}"
    return POOL.request("POST", url, body=content, headers=headers, retries=False).status


def depth(place: Place, queue: str) -> int:
    with channel(place.amqp_url) as opened:
        return int(opened.queue_declare(queue, passive=True).method.message_count)


def idle_memory(place: Place) -> float:
    """MiB of the built-in workers with nothing to do."""
    port = free_port()
    env = {
        "GEMHOOKS_BROKER_URL": place.amqp_url,
        "GEMHOOKS_DATABASE_URL": place.postgres_url,
        "GEMHOOKS_RESULTS_URL": str(place.folder / "results"),
        "GEMHOOKS_ADMIN_PORT": str(port),
        "GEMINI_API_KEY": "not-a-real-key",
    }
    with running("idle", [sys.executable, "-m", "workers"], env, place.folder) as program:

        def ready() -> bool:
            program.check()
            try:
                url = f"http://127.0.0.1:{port}/readyz"
                return POOL.request("GET", url, retries=False).status == 200
            except urllib3.exceptions.HTTPError:
                return False

        wait_until(ready, "start of the workers")
        return program.rss()


def report(runs: dict[str, list[Run]], delays: dict[str, list[Delay]], idle: float) -> None:
    found = Table(title=f"events from a quorum queue, prefetch {PREFETCH}")
    for heading in ("consumer", "events/s", "CPU us", "MiB", "gemhooks is"):
        found.add_column(heading, justify="left" if heading == "consumer" else "right")
    for name, each in runs.items():
        against = versus(runs, OURS, name)
        found.add_row(
            name,
            f"{median(run.rate for run in each):,.0f}",
            f"{median(run.cpu_us for run in each):.0f}",
            f"{max(run.rss_mib for run in each):.0f}",
            f"{against} x" if against and name != OURS else "",
        )
    console.print(found)
    for name, seen in delays.items():
        console.print(f"POST to handler at {PER_SECOND}/s, {name}: {typical(seen)}")
    console.print(f"its p99, as a share of FastStream's: {longer(delays)}")
    console.print(f"the built-in workers, idle: {idle:.0f} MiB")
    write_json(runs, delays, idle)


def typical(seen: list[Delay]) -> Delay:
    return Delay(median(each.p50 for each in seen), median(each.p99 for each in seen))


def longer(delays: dict[str, list[Delay]]) -> Ratio:
    """Our p99 by FastStream's."""
    return ratio([each.p99 for each in delays[OURS]], [each.p99 for each in delays["faststream"]])


def versus(runs: dict[str, list[Run]], us: str, them: str) -> Ratio | None:
    if us not in runs or them not in runs:
        return None
    return ratio([run.rate for run in runs[us]], [run.rate for run in runs[them]])


def write_json(runs: dict[str, list[Run]], delays: dict[str, list[Delay]], idle: float) -> None:
    ratios = {name: versus(runs, OURS, name) for name in PEERS}
    ratios["postgresql-vs-faststream"] = versus(runs, ON_POSTGRESQL, "faststream")
    found = {
        "prefetch": PREFETCH,
        "medians": {
            name: {
                "events_per_second": median(run.rate for run in each),
                "cpu_us_per_event": median(run.cpu_us for run in each),
            }
            for name, each in runs.items()
        },
        "latency_ms": {name: asdict(typical(seen)) for name, seen in delays.items()},
        "latency_p99_vs_faststream": longer(delays).middle,
        "idle_worker_mib": idle,
        "ratios": {name: each.middle for name, each in ratios.items() if each},
        "spreads": {name: [each.least, each.greatest] for name, each in ratios.items() if each},
    }
    figures.keep("worker", found, console)


if __name__ == "__main__":
    main()
