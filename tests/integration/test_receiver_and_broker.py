"""The receiver as a process, and a broker that is slow, blocked, away or cuts it off."""

import base64
import json
import random
import secrets
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
import urllib3
from standardwebhooks import Webhook
from urllib3.exceptions import NewConnectionError

from gemhooks import topology
from gemhooks.queues.rabbitmq import RabbitBroker
from tests.integration.processes import answers, is_ready, process
from tests.services.errors import ServiceError
from tests.services.ports import free_port
from tests.services.rabbitmq import Broker, RabbitNode
from tests.services.waiting import eventually

SECRET = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
PATIENCE = 20.0  # seconds; Gemini wants an answer "within seconds", and a publish may take 5
CONFIRMED = "15s"  # for a publish where nothing is wrong: a busy machine is no outage
NOT_LET_IN = 0  # in place of a status


@dataclass
class Receiver:
    """A running one, and a client of it."""

    child: subprocess.Popen[bytes]
    port: int
    admin_port: int
    http: urllib3.PoolManager

    def send(self, number: int, body: bytes = b"") -> int:
        given = {"type": "batch.failed", "version": "v1", "data": {"id": f"b{number}"}}
        text = (body or json.dumps(given).encode()).decode()
        name, now = f"msg_{number}", datetime.now(UTC)
        answer = self.http.request(
            "POST",
            f"http://127.0.0.1:{self.port}/webhooks/gemini",
            body=text,
            headers={
                "content-type": "application/json",
                "webhook-id": name,
                "webhook-timestamp": str(int(now.timestamp())),
                "webhook-signature": Webhook(SECRET).sign(name, now, text),
            },
            timeout=PATIENCE,
            retries=False,
        )
        return answer.status

    def send_or_come_too_late(self, number: int) -> int:
        """The status, or NOT_LET_IN where the port was closed by then; whoever is cut off fails."""
        try:
            return self.send(number)
        except NewConnectionError as error:
            if not isinstance(error.__cause__, ConnectionRefusedError):
                raise
            return NOT_LET_IN

    def health(self, what: str) -> int:
        return answers(f"http://127.0.0.1:{self.admin_port}/{what}")


@contextmanager
def receiver(url: str, folder: Path, **env: str) -> Iterator[Receiver]:
    port, admin = free_port(), free_port()
    given = {
        "GEMHOOKS_BROKER_URL": url,
        "GEMINI_WEBHOOK_SECRET": SECRET,
        "GEMHOOKS_PORT": str(port),
        "GEMHOOKS_ADMIN_PORT": str(admin),
        **env,
    }
    with (
        process("receiver", log=folder / "receiver.log", env=given) as child,
        closing_pool() as http,
    ):
        found = Receiver(child, port, admin, http)
        eventually(lambda: found.health("livez") == 200, why="the receiver lives")
        yield found


@contextmanager
def closing_pool() -> Iterator[urllib3.PoolManager]:
    http = urllib3.PoolManager(maxsize=32, block=True)
    try:
        yield http
    finally:
        http.clear()


def stored(url: str) -> Counter[str]:
    with closing(RabbitBroker(url)) as broker:
        found = broker.browse(topology.BATCHES.name, 100_000)
        return Counter(message.id for message, _ in found)


def test_a3_05_a_broker_that_never_answers_costs_each_delivery_a_503_and_nobody_his_life(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"amqp://guest:guest@127.0.0.1:{silent.getsockname()[1]}/"
        with receiver(url, tmp_path) as one, ThreadPoolExecutor(10) as pool:
            assert list(pool.map(one.send, range(10))) == [503] * 10
            assert (one.health("livez"), one.health("readyz")) == (200, 503)
            one.child.terminate()
            assert one.child.wait(60) == 0


def test_a2_04_a3_01_a_blocked_broker_is_503_in_time_and_heals_and_sigterm_answers_everybody(
    own_node: RabbitNode, tmp_path: Path
) -> None:
    own_node.start()
    with (
        own_node.vhost() as url,
        receiver(url, tmp_path, GEMHOOKS_PUBLISH_TIMEOUT=CONFIRMED) as one,
        ThreadPoolExecutor(8) as pool,
    ):
        eventually(is_ready(one.admin_port), why="it is ready")
        with own_node.without_memory():
            assert set(pool.map(one.send, range(20))) == {503}
            assert (one.health("livez"), one.health("readyz")) == (200, 503)
        eventually(is_ready(one.admin_port), why="it is ready again")
        assert set(pool.map(one.send, range(20, 40))) == {204}

        last = [pool.submit(one.send_or_come_too_late, number) for number in range(40, 64)]
        wait(last, return_when=FIRST_COMPLETED)
        one.child.send_signal(signal.SIGTERM)
        told = {40 + place: future.result() for place, future in enumerate(last)}
        assert one.child.wait(60) == 0
        assert set(told.values()) <= {204, 503, NOT_LET_IN}
        accepted = {f"msg_{n}" for n in range(20, 40)}
        accepted |= {f"msg_{n}" for n, status in told.items() if status == 204}
        assert accepted <= stored(url).keys()


def test_a2_03_a_lost_connection_confirms_nobody_else_s_message(
    rabbitmq_node: Broker, amqp_url: str, tmp_path: Path
) -> None:
    chance = random.Random(1)
    sizes = [chance.choice((10, 100_000)) for _ in range(400)]

    def body(number: int) -> bytes:
        data = {"id": f"b{number}", "filling": "x" * sizes[number]}
        return json.dumps({"type": "batch.failed", "version": "v1", "data": data}).encode()

    with receiver(amqp_url, tmp_path) as one, ThreadPoolExecutor(32) as pool:
        eventually(is_ready(one.admin_port), why="it is ready")
        sent = [pool.submit(one.send, number, body(number)) for number in range(len(sizes))]
        for share in (4, 2):
            eventually(lambda: sum(f.done() for f in sent) > len(sent) / share, why="some sent")  # noqa: B023 - asked before the next
            cut_connections(rabbitmq_node, amqp_url)
        told = [future.result() for future in sent]
        # It may still look ready over a connection that is about to be lost.
        eventually(lambda: one.send(len(sizes)) == 204, why="it publishes again")

    assert set(told) <= {204, 503}
    found = stored(amqp_url)
    accepted = {f"msg_{number}" for number, status in enumerate(told) if status == 204}
    assert accepted <= found.keys()
    assert {found[name] for name in accepted} == {1}


def cut_connections(node: Broker, url: str) -> None:
    """Cut at least one; the API lists them a moment after they are made, and after their end."""
    path = f"/api/vhosts/{url.rpartition('/')[2]}/connections"
    eventually(
        lambda: [each for each in node.api("GET", path) if cut(node, each["name"])] != [],
        why="a connection is cut",
    )


def cut(node: Broker, connection: str) -> bool:
    try:
        node.api("DELETE", f"/api/connections/{connection.replace(' ', '%20')}")
    except ServiceError:
        return False
    return True


def test_a2_17_a2_15_it_starts_before_its_broker_and_a_killed_broker_keeps_what_was_accepted(
    own_node: RabbitNode, tmp_path: Path
) -> None:
    own_node.start()
    with own_node.vhost() as url:
        own_node.stop()
        with (
            receiver(url, tmp_path, GEMHOOKS_PUBLISH_TIMEOUT=CONFIRMED) as one,
            ThreadPoolExecutor(8) as pool,
        ):
            assert (one.send(0), one.health("livez"), one.health("readyz")) == (503, 200, 503)
            own_node.start()
            eventually(is_ready(one.admin_port), why="it is ready")
            assert set(pool.map(one.send, range(50))) == {204}
            own_node.kill()
            eventually(lambda: one.health("readyz") == 503, why="it says so")
            own_node.start()
            eventually(is_ready(one.admin_port), why="it is ready again")
        assert stored(url) == Counter({f"msg_{number}": 1 for number in range(50)})


def test_a3_09_an_idle_receiver_ends_at_once_and_leaves_no_connection(
    rabbitmq_node: Broker, amqp_url: str, tmp_path: Path
) -> None:
    with receiver(amqp_url, tmp_path, GEMHOOKS_GRACE="300s") as one:
        eventually(is_ready(one.admin_port), why="it is ready")
        eventually(lambda: one.send(1) == 204, why="a webhook is accepted")
        one.child.terminate()

        assert one.child.wait(60) == 0  # of the grace it needs nothing
    vhost = amqp_url.rpartition("/")[2]
    eventually(
        lambda: rabbitmq_node.api("GET", f"/api/vhosts/{vhost}/connections") == [],
        why="the broker knows of none",
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [("guest:wrong@", "refuses the name or the password"), ("", "no virtual host")],
    ids=["password", "vhost"],
)
def test_a2_17_a_wrong_password_or_vhost_does_not_look_like_a_broker_that_is_away(
    amqp_url: str, tmp_path: Path, change: str, words: str
) -> None:
    url = amqp_url.replace("guest:guest@", change) if change else amqp_url + "-nowhere"
    log = tmp_path / "receiver.log"
    with receiver(url, tmp_path) as one:
        eventually(lambda: words in log.read_text(), why=words)
        assert one.health("readyz") == 503
    assert "wrong" not in log.read_text()
