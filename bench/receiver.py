"""``make bench-receiver``: this receiver and its peers, in turn, on one private RabbitMQ node.

Each program is first seen to queue one message per 2xx, one by one; each run checks that the queue
holds what was answered, and that a bad signature is refused. Ours has all its features on: the
three schemes, each used, logs and metrics.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pika
import urllib3
from pika.adapters.blocking_connection import BlockingChannel
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench import figures, load, pipelined
from bench.processes import Program, node, ours, peer, running
from bench.stats import Ratio, ratio
from gemhooks import topology
from gemhooks.simulator.key_ring import KeyRing
from tests.services.install import ensure
from tests.services.ports import free_port
from tests.services.rabbitmq import RabbitNode
from tests.services.waiting import wait_until
from tests.services.website import Website

TOKEN = "a-token-of-the-benchmark"  # noqa: S105 - guards nothing
AUDIENCE = "https://bench.example"
SECRET = "whsec_" + "YmVuY2htYXJrLW9ubHktbm90LWEtc2VjcmV0"
OURS = "gemhooks"
CELERY = "flask-celery"
PLAIN = "plain 204"
QUEUE = "bench-peers"
GUNICORN = ("gunicorn", "--worker-class", "gthread", "--threads", "32")
console = Console()


@dataclass(frozen=True)
class Contender:
    """A receiver that runs, and the queue that it publishes to."""

    name: str
    program: Program
    port: int
    queue: str  # empty: it publishes nothing


@dataclass(frozen=True)
class Run:
    """One measurement."""

    load: load.Load
    cpu: float  # microseconds of processor time per request
    rss: float  # MiB afterwards


def commands(port: int) -> Mapping[str, list[str]]:
    """How each is started, by name."""
    uvicorn = ("--host", "127.0.0.1", "--port", str(port))
    bind = ("--bind", f"127.0.0.1:{port}")
    return {
        OURS: ours("receiver"),
        "fastapi-aio-pika": peer("uvicorn", "bench.peers.fastapi_aio_pika:app", *uvicorn),
        "faststream": peer("uvicorn", "bench.peers.faststream_fastapi:app", *uvicorn),
        CELERY: peer(*GUNICORN, *bind, "bench.peers.flask_celery:app"),
        "flask-pika-per-request": peer(*GUNICORN, *bind, "bench.peers.flask_pika:app"),
        "fastify-amqplib": node("fastify_amqplib.mjs"),
        PLAIN: peer("uvicorn", "bench.peers.plain_204:app", *uvicorn),
    }


def environment(amqp_url: str, port: int, folder: Path) -> dict[str, str]:
    return {
        "AMQP_URL": amqp_url,
        "PORT": str(port),
        "QUEUE": QUEUE,
        "SECRET": SECRET,
        "GEMHOOKS_BROKER_URL": amqp_url,
        "GEMHOOKS_PORT": str(port),
        "GEMHOOKS_ADMIN_PORT": "0",
        "GEMHOOKS_RESULTS_URL": str(folder / "results"),
        "GEMINI_WEBHOOK_SECRET": SECRET,
    }


def three_schemes(jwks_url: str) -> dict[str, str]:
    return {
        "GEMHOOKS_SCHEMES": "v1 v1a jwt",
        "GEMHOOKS_PATH_TOKENS": TOKEN,
        "GEMHOOKS_JWKS_URL": jwks_url,
        "GEMHOOKS_JWT_AUDIENCE": AUDIENCE,
    }


def main() -> None:
    options = _options()
    folder = Path(tempfile.mkdtemp(prefix="gemhooks-bench-"))
    try:
        with RabbitNode() as broker, broker.vhost() as amqp_url, ExitStack() as stack:
            keys, website = KeyRing(), stack.enter_context(Website())
            website.body = json.dumps(keys.jwks()).encode()
            contenders = [
                stack.enter_context(started(name, amqp_url, folder, website.url))
                for name in options.only
            ]
            if OURS in options.only:
                use_all_schemes(contenders[options.only.index(OURS)], keys)
            limit = {each: pipelined.rate(amqp_url, QUEUE, each) for each in options.connections}
            runs = measure(contenders, amqp_url, folder, options)
    finally:
        shutil.rmtree(folder)
    report(runs, limit, options.connections)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--seconds", type=int, default=4, help="of each run")
    parser.add_argument("--repeat", type=int, default=5, help="alternations")
    parser.add_argument("--only", nargs="+", default=list(commands(0)), choices=list(commands(0)))
    return parser.parse_args()


@contextmanager
def started(name: str, amqp_url: str, folder: Path, jwks_url: str = "") -> Iterator[Contender]:
    """Start it, wait for it, and see that it does what all are compared in."""
    port, queue = free_port(), topology.INTERACTIONS.name if name == OURS else QUEUE
    queue = "" if name == PLAIN else queue
    with running(
        name.replace(" ", "-"),
        commands(port)[name],
        environment(amqp_url, port, folder) | (three_schemes(jwks_url) if jwks_url else {}),
        folder,
    ) as program:
        declare(amqp_url)
        contender = Contender(name, program, port, queue)
        wait_until(lambda: _answers(contender), f"start of {name}")
        if queue:
            check_exact(contender, amqp_url)
        yield contender


def _answers(contender: Contender) -> bool:
    contender.program.check()
    try:
        return _post(contender, 0) == 204
    except urllib3.exceptions.HTTPError:
        return False


def use_all_schemes(contender: Contender, keys: KeyRing) -> None:
    """So that what they need is in memory, as it is in production."""
    content, now = load.body(0), int(time.time())
    claims = {"aud": AUDIENCE, "iat": now, "exp": now + 60}
    for signature in (keys.sign_v1a("msg_0", now, content), keys.sign_jwt(claims)):
        changed = {"webhook-signature": signature, "webhook-timestamp": str(now)}
        if _post(contender, 0, f"{load.PATH}/{TOKEN}", **changed) != 204:
            raise RuntimeError("a webhook of another scheme was refused")


def _post(contender: Contender, number: int, path: str = load.PATH, **changed: str) -> int:
    content = load.body(number)
    headers = load.headers(SECRET, number, content) | changed
    headers["Content-Type"] = "application/json"
    url = f"http://127.0.0.1:{contender.port}{path}"
    return urllib3.request("POST", url, body=content, headers=headers, retries=False).status


def check_exact(contender: Contender, amqp_url: str, count: int = 50) -> None:
    """As many in the queue as were answered, and none for a signature that is not right."""
    empty(contender, amqp_url)
    answers = [_post(contender, number) for number in range(count)]
    check_refusal(contender)
    found = depth(contender, amqp_url)
    if answers != [204] * count or found != count:
        raise RuntimeError(f"{contender.name}: {found} queued of {count}")


def check_refusal(contender: Contender) -> None:
    """A signature that is not right is 401."""
    status = _post(contender, 0, **{"webhook-signature": "v1," + "A" * 43 + "="})
    if status != 401:
        raise RuntimeError(f"{contender.name}: a bad signature is answered {status}")


def measure(
    contenders: list[Contender], amqp_url: str, folder: Path, options: argparse.Namespace
) -> dict[tuple[str, int], list[Run]]:
    runs: dict[tuple[str, int], list[Run]] = {}
    plan = [
        (connections, contender)
        for _ in range(options.repeat)
        for connections in options.connections
        for contender in contenders
    ]
    for connections, contender in track(plan, "measuring", console=Console(stderr=True)):
        found = one_run(contender, amqp_url, folder, connections, options.seconds)
        runs.setdefault((contender.name, connections), []).append(found)
    return runs


def one_run(
    contender: Contender, amqp_url: str, folder: Path, connections: int, seconds: int
) -> Run:
    if contender.queue:
        empty(contender, amqp_url)
    before = contender.program.cpu()
    found = load.run(folder, SECRET, contender.port, connections=connections, seconds=seconds)
    cpu = (contender.program.cpu() - before) / max(found.answered, 1) * 1e6
    if found.refused or found.broken:
        raise RuntimeError(f"{contender.name}: {found.refused} refused, {found.broken} broken")
    if contender.queue:
        check_under_load(contender, amqp_url, found.answered, connections)
        check_refusal(contender)
    return Run(found, cpu, contender.program.rss())


def check_under_load(contender: Contender, amqp_url: str, answered: int, connections: int) -> None:
    """As many in the queue as were answered, and what was in flight when the time was over.

    wrk hangs up on that: one request for each connection, and as many of the run before may come
    after its queue was emptied. Celery publishes again what it has doubts about.
    """
    wait_until(lambda: depth(contender, amqp_url) >= answered, f"queue of {contender.name}")
    more = depth(contender, amqp_url) - answered
    if more > 2 * connections and contender.name != CELERY:
        raise RuntimeError(f"{contender.name}: {more} queued that nobody asked for")


@contextmanager
def channel(amqp_url: str) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(amqp_url))
    try:
        yield connection.channel()
    finally:
        connection.close()


def declare(amqp_url: str) -> None:
    with channel(amqp_url) as opened:
        opened.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})


def depth(contender: Contender, amqp_url: str) -> int:
    with channel(amqp_url) as opened:
        return int(opened.queue_declare(contender.queue, passive=True).method.message_count)


def empty(contender: Contender, amqp_url: str) -> None:
    with channel(amqp_url) as opened:
        opened.queue_purge(contender.queue)


def report(
    runs: dict[tuple[str, int], list[Run]], limit: dict[int, float], connections: list[int]
) -> None:
    names = list(dict.fromkeys(name for name, _ in runs))
    for each in connections:
        console.print(table({name: runs[name, each] for name in names}, each, limit[each]))
    shown = 32 if 32 in connections else connections[-1]
    write_json({name: runs[name, shown] for name in names}, shown)


def table(runs: dict[str, list[Run]], connections: int, limit: float) -> Table:
    found = Table(title=f"{connections} connections (pipelined publishing alone: {limit:,.0f}/s)")
    for heading in ("receiver", "requests/s", "p50 ms", "p99 ms", "CPU us", "MiB", "gemhooks is"):
        found.add_column(heading, justify="left" if heading == "receiver" else "right")
    for name, each in runs.items():
        against = versus(runs, name)
        found.add_row(
            name,
            f"{median(run.load.rate for run in each):,.0f}",
            f"{median(run.load.p50 for run in each):.1f}",
            f"{median(run.load.p99 for run in each):.1f}",
            f"{median(run.cpu for run in each):.0f}",
            f"{max(run.rss for run in each):.0f}",
            f"{against} x" if against and name != OURS else "",
        )
    return found


def versus(runs: dict[str, list[Run]], name: str) -> Ratio | None:
    if OURS not in runs:
        return None
    return ratio([run.load.rate for run in runs[OURS]], [run.load.rate for run in runs[name]])


def write_json(runs: dict[str, list[Run]], connections: int) -> None:
    ratios = {name: versus(runs, name) for name in runs if name not in (OURS, PLAIN)}
    found = {
        "connections": connections,
        "repetitions": min(len(each) for each in runs.values()),
        "medians": {
            name: {
                "requests_per_second": median(run.load.rate for run in each),
                "p50_ms": median(run.load.p50 for run in each),
                "p99_ms": median(run.load.p99 for run in each),
                "cpu_us_per_request": median(run.cpu for run in each),
                "rss_mib": max(run.rss for run in each),
            }
            for name, each in runs.items()
        },
        "ratios": {name: each.middle for name, each in ratios.items() if each},
        "spreads": {name: [each.least, each.greatest] for name, each in ratios.items() if each},
    }
    figures.keep("receiver", found, console)


if __name__ == "__main__":
    ensure("wrk")
    main()
