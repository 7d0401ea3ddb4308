"""The main job on real parts, counted from outside."""

import base64
import json
import random
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pika
import psycopg
import pytest
import urllib3
from standardwebhooks import Webhook

from gemhooks import topology
from tests.integration.processes import is_ready, process
from tests.services.ports import free_port
from tests.services.waiting import eventually

DELIVERIES = 1000
DUPLICATES = 0.10
FORGED = 0.05
MESSAGES = "gemhooks_messages_total"


@dataclass(frozen=True)
class System:
    """Where the running parts are."""

    receiver: str
    receiver_admin: int
    worker_admins: tuple[int, ...]
    simulator: str
    amqp_url: str
    database_url: str
    results: Path
    secret: str


@pytest.fixture
def system(amqp_url: str, postgres_url: str, tmp_path: Path) -> Iterator[System]:
    """Simulator, receiver and two workers as separate processes."""
    simulator, receiver, *admins = (free_port() for _ in range(5))
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    env = {
        "GEMHOOKS_BROKER_URL": amqp_url,
        "GEMHOOKS_DATABASE_URL": postgres_url,
        "GEMHOOKS_RESULTS_URL": str(tmp_path / "results"),
        "GEMHOOKS_GEMINI_BASE_URL": f"http://127.0.0.1:{simulator}",
        "GEMINI_API_KEY": "test",
        "GEMINI_WEBHOOK_SECRET": secret,
        "GEMHOOKS_PORT": str(receiver),
        "GEMHOOKS_LOG_FORMAT": "json",
        "GEMHOOKS_PUBLISH_TIMEOUT": "60s",
    }
    programs = [("gemhooks", "simulate", "--port", str(simulator)), ("receiver",)]
    programs += [("workers",), ("workers",)]
    with ExitStack() as stack:
        for number, (program, admin) in enumerate(zip(programs, [0, *admins], strict=True)):
            mine = {**env, "GEMHOOKS_ADMIN_PORT": str(admin)}
            log = tmp_path / f"{number}-{program[0]}.log"
            stack.enter_context(process(*program, log=log, env=mine))
        for admin in admins:
            eventually(is_ready(admin), why=f"ready on {admin}: see the logs in {tmp_path}")
        yield System(
            receiver=f"http://127.0.0.1:{receiver}/webhooks/gemini",
            receiver_admin=admins[0],
            worker_admins=tuple(admins[1:]),
            simulator=f"http://127.0.0.1:{simulator}",
            amqp_url=amqp_url,
            database_url=postgres_url,
            results=tmp_path / "results" / "interactions",
            secret=secret,
        )


@dataclass(frozen=True)
class Sent:
    """One delivery as it goes out."""

    webhook_id: str
    body: bytes
    forged: bool


def interactions(simulator: str, http: urllib3.PoolManager, count: int) -> list[str]:
    """Ids of *count* background interactions that nobody is called back for."""

    def create(number: int) -> str:
        answer = http.request(
            "POST",
            f"{simulator}/v1/interactions",
            json={"model": "gemini-3.8-flash", "input": f"question {number}", "background": True},
            headers={"x-goog-api-key": "test"},
        )
        return str(answer.json()["id"])

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(create, range(count)))


def deliveries(ids: list[str], chance: random.Random) -> list[Sent]:
    """Each id once, a tenth twice, and some that nobody signed with our secret, shuffled."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    genuine = [
        Sent(f"msg_{number}", body("interaction.completed", each, now), forged=False)
        for number, each in enumerate(ids)
    ]
    twice = chance.sample(genuine, round(DUPLICATES * DELIVERIES))
    forged = [
        Sent(
            f"msg_forged_{number}", body("interaction.completed", f"v1_{number}", now), forged=True
        )
        for number in range(round(FORGED * DELIVERIES))
    ]
    everything = genuine + twice + forged
    chance.shuffle(everything)
    return everything


def body(event_type: str, resource: str, now: str) -> bytes:
    given = {"type": event_type, "version": "v1", "timestamp": now, "data": {"id": resource}}
    return json.dumps(given).encode()


def deliver(sent: Sent, system: System, http: urllib3.PoolManager) -> int:
    signer = Webhook(system.secret if not sent.forged else "whsec_" + "A" * 43 + "=")
    now = datetime.now(UTC)
    headers = {
        "content-type": "application/json",
        "webhook-id": sent.webhook_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": signer.sign(sent.webhook_id, now, sent.body.decode()),
    }
    answer = http.request("POST", system.receiver, body=sent.body, headers=headers)
    return answer.status


def done_in_ledger(system: System) -> int:
    with psycopg.connect(system.database_url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM handled WHERE queue = %s AND state = 'done'",
            (topology.INTERACTIONS.name,),
        ).fetchone()
    return int(row[0]) if row else 0


def depths(system: System) -> dict[str, int]:
    """How many messages each queue of ours holds, by the broker's own word."""
    names = [each.name for each in topology.BUILT_IN]
    names += [topology.dead_letters(name) for name in names] + [topology.UNROUTED]
    names += [topology.retry_name(rung) for rung in topology.RUNGS]
    connection = pika.BlockingConnection(pika.URLParameters(system.amqp_url))
    try:
        channel = connection.channel()
        return {
            name: channel.queue_declare(name, passive=True).method.message_count for name in names
        }
    finally:
        connection.close()


def counted(http: urllib3.PoolManager, ports: Iterable[int], metric: str) -> Counter[str]:
    """The metric by outcome, summed over the processes at *ports*."""
    totals: Counter[str] = Counter()
    for port in ports:
        text = http.request("GET", f"http://127.0.0.1:{port}/metrics").data.decode()
        for line in text.splitlines():
            if line.startswith(metric + "{"):
                outcome = line.split('outcome="')[1].split('"')[0]
                totals[outcome] += int(float(line.rsplit(" ", 1)[1]))
    return totals


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_verified_event_is_handled_once_and_every_forged_one_is_refused(
    system: System,
) -> None:
    chance = random.Random(7)
    http = urllib3.PoolManager(maxsize=32, block=True)
    genuine = round(DELIVERIES * (1 - DUPLICATES - FORGED))
    ids = interactions(system.simulator, http, genuine)
    everything = deliveries(ids, chance)

    with ThreadPoolExecutor(32) as pool:
        statuses = list(pool.map(lambda sent: deliver(sent, system, http), everything))
    eventually(
        lambda: done_in_ledger(system) == genuine,
        seconds=600,
        why=f"{genuine} handled in the ledger",
    )
    # A copy that met its twin at work waits on the ladder: it is there, and then a duplicate.
    copies = round(DUPLICATES * DELIVERIES)
    eventually(
        lambda: counted(http, system.worker_admins, MESSAGES)["duplicate"] == copies,
        why=f"{copies} copies recognised",
    )
    eventually(lambda: not any(depths(system).values()), why="all queues empty")

    assert [status for sent, status in zip(everything, statuses, strict=True) if sent.forged] == [
        401
    ] * round(FORGED * DELIVERIES)
    assert {
        status for sent, status in zip(everything, statuses, strict=True) if not sent.forged
    } == {204}
    assert sorted(stored_ids(system.results)) == sorted(ids)
    requests = counted(http, [system.receiver_admin], "gemhooks_webhook_requests_total")
    assert sum(requests.values()) == len(everything) == DELIVERIES
    handled = counted(http, system.worker_admins, MESSAGES)
    assert (handled["done"], handled["duplicate"], handled["dead"]) == (genuine, copies, 0)
    assert sum(depths(system).values()) == 0
    http.clear()


def stored_ids(folder: Path) -> list[str]:
    """Each interaction lies there beside its summary."""
    return [path.stem for path in folder.glob("*.json") if ".summary" not in path.suffixes]
