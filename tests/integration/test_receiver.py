"""The receiver as a process in front of RabbitMQ: what it answers while things go wrong."""

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pika
import pytest

from gemhooks import topology
from tests.integration.processes import answers, is_ready, process
from tests.receiver.serving import BODY, PATH, SECRET, read_answer, request, signed, status_of
from tests.services.ports import free_port
from tests.services.proxy import Proxy, Way
from tests.services.rabbitmq import RabbitNode
from tests.services.waiting import eventually

CLIENTS = 8


@dataclass
class Running:
    """A receiver that runs."""

    port: int
    admin: int
    child: subprocess.Popen[bytes]
    log: Path

    def post(self, webhook_id: str = "msg_1") -> int:
        """The status of one webhook on a connection of its own."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            client.request("POST", PATH, BODY, signed(BODY, webhook_id))
            return client.getresponse().status
        finally:
            client.close()

    def health(self) -> tuple[int, int, int, int]:
        """Alive and ready, on the public port and on the other."""
        both = (self.port, self.admin)
        live, ready = (
            [answers(f"http://127.0.0.1:{port}/{name}") for port in both]
            for name in ("livez", "readyz")
        )
        return (live[0], live[1], ready[0], ready[1])

    def reasons(self) -> set[str]:
        """Why requests were not published."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return {line["reason"] for line in lines if line.get("outcome") == "publish_failed"}


@contextmanager
def running(url: str, folder: Path, **env: str) -> Iterator[Running]:
    port, admin, log = free_port(), free_port(), folder / "receiver.log"
    given = {
        "GEMHOOKS_BROKER_URL": url,
        "GEMINI_WEBHOOK_SECRET": SECRET,
        "GEMHOOKS_PORT": str(port),
        "GEMHOOKS_ADMIN_PORT": str(admin),
        "GEMHOOKS_PUBLISH_TIMEOUT": "15s",  # a busy machine is no outage
        **env,
    }
    with process("receiver", log=log, env=given) as child:
        eventually(is_ready(admin), why="the receiver is ready")
        yield Running(port, admin, child, log)


def through(url: str, proxy: Proxy) -> str:
    """The URL of the same broker, by way of *proxy*."""
    parts = urlsplit(url)
    place = f"{parts.username}:{parts.password}@127.0.0.1:{proxy.port}"
    return urlunsplit(parts._replace(netloc=place))


@pytest.fixture
def proxy(amqp_url: str) -> Iterator[Proxy]:
    with Proxy(urlsplit(amqp_url).port or 5672) as proxy:
        yield proxy


def queued_ids(amqp_url: str) -> list[str]:
    """The ids of all messages that lie in queues of ours."""
    connection = pika.BlockingConnection(pika.URLParameters(amqp_url))
    try:
        channel, found = connection.channel(), []
        for name in [*(each.name for each in topology.BUILT_IN), topology.UNROUTED]:
            while True:
                method, properties, _ = channel.basic_get(name, auto_ack=True)
                if method is None or properties is None:
                    break
                found.append(str(properties.message_id))
        return found
    finally:
        connection.close()


# -- the broker is away, silent or full


def test_while_the_broker_is_away_it_answers_503_and_recovers_by_itself(
    amqp_url: str, proxy: Proxy, tmp_path: Path
) -> None:
    with running(through(amqp_url, proxy), tmp_path) as receiver:
        assert receiver.post() == 204
        proxy.refusing = True
        proxy.cut()
        eventually(lambda: receiver.post() == 503, why="the cut is felt")

        assert receiver.health() == (200, 200, 503, 503)
        proxy.refusing = False
        eventually(lambda: receiver.post() == 204, why="it connects again")
        assert receiver.health() == (200, 200, 200, 200)
    assert receiver.reasons() <= {"disconnected"}


@pytest.mark.parametrize("way", list(Way))
def test_while_confirms_do_not_come_it_answers_503_and_recovers_by_itself(
    amqp_url: str, proxy: Proxy, tmp_path: Path, way: Way
) -> None:
    impatient = {"GEMHOOKS_PUBLISH_TIMEOUT": "1s"}
    with running(through(amqp_url, proxy), tmp_path, **impatient) as receiver:
        proxy.silent = frozenset({way})

        assert receiver.post("msg_lost") == 503
        assert receiver.health()[:2] == (200, 200)
        proxy.silent = frozenset()
        eventually(lambda: receiver.post("msg_kept") == 204, why="confirms come again")
    assert receiver.reasons() <= {"timeout", "disconnected"}
    assert "msg_kept" in queued_ids(amqp_url)


def test_while_the_broker_has_no_memory_it_answers_503_and_recovers_by_itself(
    own_node: RabbitNode, tmp_path: Path
) -> None:
    own_node.start()
    with own_node.vhost() as url, running(url, tmp_path) as receiver:
        assert receiver.post() == 204
        with own_node.without_memory():
            eventually(lambda: receiver.post() == 503, why="the alarm is felt")
            assert receiver.post() == 503
            assert receiver.health() == (200, 200, 503, 503)
        eventually(lambda: receiver.post() == 204, why="the alarm is over")
    assert receiver.reasons() <= {"blocked", "timeout"}


# -- its log is not read, its loop hangs


def test_a_log_that_nobody_reads_holds_up_no_webhook_and_not_the_end(tmp_path: Path) -> None:
    log = tmp_path / "receiver.log"
    os.mkfifo(log)
    unread = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with running(f"sqlite:///{tmp_path}/queue.db", tmp_path) as receiver:
            # More than a pipe holds.
            answered = {receiver.post("m" * 4000 + str(number)) for number in range(30)}
            health = receiver.health()
            receiver.child.terminate()
            code = receiver.child.wait(30)
    finally:
        os.close(unread)

    assert (answered, health, code) == ({204}, (200, 200, 200, 200), 0)


def test_while_its_loop_hangs_the_other_port_says_that_it_is_not_ready(tmp_path: Path) -> None:
    """The loop reads a secret here that does not come, as from a disk that is away."""
    secret, door, mended = (tmp_path / name for name in ("secret", "door", "mended"))
    for each in (secret, mended):
        each.write_text(SECRET)
    os.mkfifo(door)
    (tmp_path / "hanging").hardlink_to(door)
    own = {"GEMINI_WEBHOOK_SECRET": "", "GEMINI_WEBHOOK_SECRET_FILE": str(secret)}
    with running(f"sqlite:///{tmp_path}/queue.db", tmp_path, **own) as receiver:
        ready = f"http://127.0.0.1:{receiver.admin}/readyz"
        (tmp_path / "hanging").replace(secret)
        eventually(lambda: answers(ready) == 503, why="it is seen that the loop hangs")
        alive = answers(f"http://127.0.0.1:{receiver.admin}/livez")

        mended.replace(secret)
        door.write_text(SECRET)  # read as the file that was hanging
        eventually(lambda: receiver.health() == (200, 200, 200, 200), why="it goes on")
    assert alive == 200


# -- the end


@dataclass
class Load:
    """Clients that post until the answer closes their connection.

    Those that are *fresh* open one for each request, until the port is closed.
    """

    receiver: Running
    fresh: bool
    answers: dict[str, int] = field(default_factory=dict)
    resets: list[str] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)

    @property
    def accepted(self) -> set[str]:
        return {name for name, status in list(self.answers.items()) if status == 204}

    def client(self, name: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.receiver.port, timeout=30)
        number = 0
        while not self.is_over.is_set() and not has_ended(connection):
            number += 1
            is_last = self.post(connection, f"msg_{name}_{number}")
            if is_last and not self.fresh:
                break
            if self.fresh:
                connection.close()  # the next request opens it again
        connection.close()

    def post(self, connection: http.client.HTTPConnection, webhook_id: str) -> bool:
        """Whether it was the last on its connection."""
        try:
            connection.request("POST", PATH, BODY, signed(BODY, webhook_id))
            answer = connection.getresponse()
            answer.read()
        except ConnectionRefusedError:
            self.is_over.set()
            return True
        except (OSError, http.client.HTTPException) as error:
            self.resets.append(repr(error))
            return True
        self.answers[webhook_id] = answer.status
        return answer.will_close


def has_ended(connection: http.client.HTTPConnection) -> bool:
    """Whether it was closed while nothing was asked: a client sees that before it asks again."""
    return connection.sock is not None and select.select([connection.sock], [], [], 0)[0] != []


@contextmanager
def load(receiver: Running, *, fresh: bool) -> Iterator[Load]:
    under = Load(receiver, fresh)
    threads = [threading.Thread(target=under.client, args=(n,)) for n in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: len(under.accepted) > 20 * CLIENTS, why="requests are accepted")
        yield under
    finally:
        for thread in threads:
            thread.join(30)
        under.is_over.set()


@pytest.mark.parametrize(
    ("delay", "fresh"),
    [("0", False), ("2s", False), ("0", True), ("1s", True)],
    ids=["at once", "later", "new connections", "new connections, later"],
)
def test_at_the_end_every_2xx_is_in_the_queue_and_nobody_is_reset(
    amqp_url: str, tmp_path: Path, delay: str, *, fresh: bool
) -> None:
    with (
        running(amqp_url, tmp_path, GEMHOOKS_DRAIN_DELAY=delay) as receiver,
        load(receiver, fresh=fresh) as under,
    ):
        receiver.child.send_signal(signal.SIGTERM)
        eventually(lambda: not is_ready(receiver.admin)(), why="readiness falls")
        code = receiver.child.wait(60)

    assert (code, under.resets) == (0, [])
    assert set(under.answers.values()) <= {204, 503}
    assert len(under.accepted) > 20 * CLIENTS
    assert under.accepted <= set(queued_ids(amqp_url))
    assert "Traceback" not in receiver.log.read_text()


def test_readiness_falls_first_and_whoever_comes_meanwhile_is_still_served(
    amqp_url: str, tmp_path: Path
) -> None:
    with running(amqp_url, tmp_path, GEMHOOKS_DRAIN_DELAY="300s") as receiver:
        receiver.child.send_signal(signal.SIGTERM)
        eventually(lambda: receiver.health()[2:] == (503, 503), why="readiness falls")

        assert receiver.post() == 204
        receiver.child.send_signal(signal.SIGTERM)  # nobody has to wait for the rest


def test_what_is_half_sent_is_refused_when_the_grace_is_over(amqp_url: str, tmp_path: Path) -> None:
    whole = request(headers=signed(BODY), more={"Expect": "100-continue"})
    head, body = whole[: -len(BODY)], whole[-len(BODY) :]
    with running(amqp_url, tmp_path, GEMHOOKS_GRACE="1s") as receiver:
        with socket.create_connection(("127.0.0.1", receiver.port), timeout=60) as client:
            client.sendall(head)
            assert status_of(read_answer(client)) == 100  # it is waited for
            client.sendall(body[:-1])
            receiver.child.send_signal(signal.SIGTERM)

            assert status_of(read_answer(client)) == 503
        assert receiver.child.wait(60) == 0


def test_a_second_signal_ends_it_at_once(amqp_url: str, proxy: Proxy, tmp_path: Path) -> None:
    env = {"GEMHOOKS_PUBLISH_TIMEOUT": "300s", "GEMHOOKS_GRACE": "300s"}
    with running(through(amqp_url, proxy), tmp_path, **env) as receiver:
        proxy.silent = frozenset({Way.UP})
        waiting = threading.Thread(target=lambda: _post_quietly(receiver))
        waiting.start()
        eventually(lambda: proxy.held, why="its message is on its way")
        receiver.child.send_signal(signal.SIGTERM)
        eventually(lambda: answers(f"http://127.0.0.1:{receiver.admin}/readyz") == 503)
        receiver.child.send_signal(signal.SIGTERM)

        assert receiver.child.wait(60) == 128 + signal.SIGTERM
        waiting.join(60)


def _post_quietly(receiver: Running) -> None:
    with suppress(OSError, http.client.HTTPException):
        receiver.post()


# -- logs and metrics


def metrics_of(receiver: Running) -> str:
    url = f"http://127.0.0.1:{receiver.admin}/metrics"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read(), "utf-8")


def test_no_line_at_any_level_and_no_metric_holds_a_secret_a_token_or_a_body(
    amqp_url: str, tmp_path: Path
) -> None:
    token = "a-token-that-nobody-guesses"
    env = {"GEMHOOKS_PATH_TOKENS": token, "GEMHOOKS_LOG_LEVEL": "debug"}
    with running(amqp_url, tmp_path, **env) as receiver:
        receiver.post()
        for path in (f"{PATH}/{token}", f"{PATH}/{token}x"):
            client = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=30)
            client.request("POST", path, BODY, {**signed(BODY), "Authorization": "Bearer hush"})
            client.getresponse()
            client.close()
        metrics = metrics_of(receiver)
    said = receiver.log.read_text() + metrics

    assert len([line for line in said.splitlines() if "webhook_received" in line]) == 3
    assert "published" in said
    assert "gemhooks_webhook_key_info{" in said
    for hidden in (token, SECRET[6:], "int_1", "hush", signed(BODY)["webhook-signature"]):
        assert hidden not in said
