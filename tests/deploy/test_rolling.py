"""A rolling update under load: one receiver comes, the other drains, and no request is dropped."""

import base64
import http.client
import secrets
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest

from gemhooks import signing
from tests.integration.processes import is_ready, process
from tests.services.ports import free_port
from tests.services.waiting import eventually

SECRET = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
DRAIN = 5.0  # seconds that a drained receiver serves on; the probe sees it long before
PROBE = 0.2  # seconds between two looks at readiness


@dataclass
class Receiver:
    """One pod's process and its two ports."""

    folder: Path
    port: int = field(default_factory=free_port)
    admin: int = field(default_factory=free_port)

    @property
    def env(self) -> dict[str, str]:
        return {
            "GEMHOOKS_BROKER_URL": f"sqlite:///{self.folder}/queue.db",
            "GEMHOOKS_PORT": str(self.port),
            "GEMHOOKS_ADMIN_PORT": str(self.admin),
            "GEMHOOKS_DRAIN_DELAY": f"{DRAIN}s",
            "GEMINI_WEBHOOK_SECRET": SECRET,
            "GEMHOOKS_LOG_FORMAT": "json",
            "GEMHOOKS_PUBLISH_TIMEOUT": "60s",
        }


class Service:
    """What a Kubernetes Service does: send each connection to a pod that its probe calls ready.

    A moment late, as nodes learn of a change; a connection that is open stays with its pod.
    """

    def __init__(self, pods: list[Receiver]) -> None:
        self.pods = pods
        self.ready: list[Receiver] = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._probe, daemon=True)

    def _probe(self) -> None:
        while not self.stop.is_set():
            self.ready = [each for each in list(self.pods) if is_ready(each.admin)()]
            self.stop.wait(PROBE)

    def choose(self, number: int) -> Receiver:
        """One that is ready; the list may be another a moment later."""
        found: list[Receiver] = []

        def are_there() -> bool:
            found[:] = self.ready
            return bool(found)

        eventually(are_there, why="a pod is ready")
        return found[number % len(found)]

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join(60)


class Sender:
    """Sends webhooks one after the other on connections that are kept while they may be."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.answers: Counter[str] = Counter()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._send, daemon=True)

    def _send(self) -> None:
        connection: http.client.HTTPConnection | None = None
        number = 0
        while not self.stop.is_set():
            if connection is None:
                pod = self.service.choose(number)
                connection = http.client.HTTPConnection("127.0.0.1", pod.port, timeout=60)
            number += 1
            try:
                closes = self._one(connection, f"msg-{id(self)}-{number}")
            except (OSError, http.client.HTTPException) as error:
                self.answers[type(error).__name__] += 1
                closes = True
            if closes:
                connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def _one(self, connection: http.client.HTTPConnection, name: str) -> bool:
        body = b'{"type":"interaction.completed","data":{"id":"v1_x"}}'
        now = int(time.time())
        key = signing.decode_secret(SECRET)
        headers = {
            "webhook-id": name,
            "webhook-timestamp": str(now),
            "webhook-signature": signing.sign_v1(name, now, body, key),
        }
        connection.request("POST", "/webhooks/gemini", body, headers)
        answer = connection.getresponse()
        answer.read()
        self.answers[str(answer.status)] += 1
        return answer.will_close


@pytest.fixture
def running() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_rolling_update_under_load_drops_no_request(tmp_path: Path, running: ExitStack) -> None:
    first, second = Receiver(tmp_path), Receiver(tmp_path)
    old = running.enter_context(process("receiver", log=tmp_path / "1.log", env=first.env))
    eventually(is_ready(first.admin))
    service = running.enter_context(Service([first]))
    eventually(lambda: bool(service.ready))
    senders = [Sender(service) for _ in range(4)]
    for each in senders:
        each.thread.start()
    eventually(lambda: sent(senders) > 100)

    running.enter_context(process("receiver", log=tmp_path / "2.log", env=second.env))
    service.pods.append(second)
    eventually(lambda: second in service.ready)
    old.send_signal(signal.SIGTERM)  # the pod is told to end at the same moment as everybody else
    assert old.wait(60) == 0
    after = sent(senders)
    eventually(lambda: sent(senders) > after + 100)
    for each in senders:
        each.stop.set()
        each.thread.join(60)

    answers = sum((each.answers for each in senders), Counter[str]())
    assert answers.keys() == {"204"}


@pytest.mark.parametrize("role", [("receiver",), ("workers",), ("workers", "reconcile")])
def test_a_process_that_is_told_to_end_while_idle_ends_well(
    role: tuple[str, ...], tmp_path: Path
) -> None:
    """No thread of ours keeps it: not the publisher's, the admin server's or the database's."""
    pod = Receiver(tmp_path)
    more = {
        "GEMHOOKS_DATABASE_URL": f"sqlite:///{tmp_path}/ledger.db",
        "GEMHOOKS_RESULTS_URL": str(tmp_path / "results"),
        "GEMHOOKS_GEMINI_BASE_URL": f"http://127.0.0.1:{free_port()}",  # and Gemini is away
        "GEMINI_API_KEY": "simulated",
        "GEMHOOKS_GRACE": "300s",  # of which it needs nothing
    }
    with process(*role, log=tmp_path / "log", env={**pod.env, **more}) as child:
        eventually(is_ready(pod.admin))
        child.send_signal(signal.SIGTERM)

        assert child.wait(60) == 0


def sent(senders: list[Sender]) -> int:
    return sum(each.answers.total() for each in senders)
