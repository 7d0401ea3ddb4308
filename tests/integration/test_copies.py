"""One signed request, sent again and again: always 2xx, and one effect."""

import base64
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import urllib3

from gemhooks import signing
from tests.integration.processes import is_ready, process
from tests.services.ports import free_port
from tests.services.waiting import eventually

COPIES = 20
BODY = b'{"type":"batch.failed","version":"v1","data":{"id":"b1"}}'


@dataclass(frozen=True)
class System:
    """Two receivers and one consumer, on one RabbitMQ."""

    receivers: tuple[str, str]
    worker_admin: int
    notes: Path
    headers: dict[str, str]
    http: urllib3.PoolManager

    def post(self, number: int) -> int:
        where = self.receivers[number % 2]
        return self.http.request("POST", where, body=BODY, headers=self.headers).status

    def handled(self, outcome: str) -> int:
        metrics = self.http.request("GET", f"http://127.0.0.1:{self.worker_admin}/metrics")
        wanted = f'outcome="{outcome}"'
        return sum(
            int(float(line.rsplit(" ", 1)[1]))
            for line in metrics.data.decode().splitlines()
            if line.startswith("gemhooks_messages_total{") and wanted in line
        )


@pytest.fixture
def system(amqp_url: str, tmp_path: Path) -> Iterator[System]:
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    ports, admins = [free_port() for _ in range(2)], [free_port() for _ in range(3)]
    env = {
        "GEMHOOKS_BROKER_URL": amqp_url,
        "GEMHOOKS_DATABASE_URL": f"sqlite:///{tmp_path}/ledger.db",
        "GEMINI_WEBHOOK_SECRET": secret,
        "NOTES": str(tmp_path / "notes"),
        "GEMHOOKS_PUBLISH_TIMEOUT": "60s",
    }
    consume = ("gemhooks", "consume", "tests.integration.handlers:slow")
    programs = [(consume, 0), (("receiver",), ports[0]), (("receiver",), ports[1])]
    with ExitStack() as stack:
        for (arguments, port), admin in zip(programs, admins, strict=True):
            mine = {**env, "GEMHOOKS_PORT": str(port), "GEMHOOKS_ADMIN_PORT": str(admin)}
            stack.enter_context(process(*arguments, log=tmp_path / f"{admin}.log", env=mine))
        for admin in admins:
            eventually(is_ready(admin), why=f"all are ready: see the logs in {tmp_path}")
        now = int(time.time())
        signature = signing.sign_v1("msg_1", now, BODY, signing.decode_secret(secret))
        headers = {
            "webhook-id": "msg_1",
            "webhook-timestamp": str(now),
            "webhook-signature": signature,
        }
        first, second = (f"http://127.0.0.1:{port}/webhooks/gemini" for port in ports)
        http = stack.enter_context(urllib3.PoolManager(maxsize=COPIES))
        yield System((first, second), admins[0], tmp_path / "notes", headers, http)


def test_a1_14_a_request_that_is_sent_again_is_accepted_and_has_one_effect(system: System) -> None:
    with ThreadPoolExecutor(COPIES) as pool:
        statuses = list(pool.map(system.post, range(COPIES)))
    eventually(lambda: system.handled("duplicate") == COPIES - 1, why="the copies are recognised")
    statuses.append(system.post(0))  # long after the first was handled
    eventually(lambda: system.handled("duplicate") == COPIES, why="so is the late one")

    assert statuses == [204] * (COPIES + 1)
    assert system.handled("done") == 1
    assert system.notes.read_text().splitlines() == ["begin b1", "end b1"]
