"""Listening shows what passes, takes nothing away, and leaves nothing behind."""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from gemhooks import signing, topology
from gemhooks.cli import sending
from gemhooks.cli.listen import json_line
from gemhooks.messages import Message
from gemhooks.queues import listening
from gemhooks.queues import sqlite_rows as rows
from gemhooks.queues.connect import connect
from gemhooks.queues.sqlite import SqliteBroker
from gemhooks.simulator import Simulator
from gemhooks.testing import message
from tests.integration.processes import ROOT, clean_env

SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PATIENCE = 60.0  # seconds


@pytest.fixture(params=["sqlite", "amqp"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A broker that the receiver has been at."""
    sqlite = f"sqlite:///{tmp_path}/queue.db"
    found: str = sqlite if request.param == "sqlite" else request.getfixturevalue("amqp_url")
    with closing(connect(found, publish_timeout=PATIENCE)) as broker:
        broker.declare([])
    return found


@contextmanager
def listener(*options: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """``gemhooks listen`` as a process, from when it listens on."""
    child = subprocess.Popen(
        [sys.executable, "-m", "gemhooks", "listen", *options],
        cwd=ROOT,
        env=clean_env(**env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with child:
        try:
            assert child.stderr is not None
            said = child.stderr.readline()
            assert said.startswith("listening to"), said + child.stderr.read()
            yield child
        finally:
            child.terminate()
            try:
                child.wait(PATIENCE)
            except subprocess.TimeoutExpired:  # seen once, on a busy machine: it never ended
                child.kill()


def publish(url: str, *messages: Message, exchange: str = topology.EVENTS) -> None:
    with closing(connect(url, publish_timeout=PATIENCE)) as broker:
        broker.declare([])  # returns once it is connected
        for each in messages:
            broker.publisher.publish(each, exchange=exchange).result(PATIENCE)


def shown(child: subprocess.Popen[str], count: int) -> list[str]:
    assert child.stdout is not None
    return [child.stdout.readline() for _ in range(count)]


def depth(url: str, name: str) -> int:
    with closing(connect(url, publish_timeout=PATIENCE)) as broker:
        broker.declare([])
        return len(broker.browse(name, 100))


def test_events_and_results_are_shown_and_stay_where_they_are(url: str) -> None:
    with listener("--format", "json", "--count", "2", GEMHOOKS_BROKER_URL=url) as child:
        publish(url, message("batch.succeeded", id="b1", user_metadata={"a": 1}))
        publish(url, message("interaction.fetched", id="i1"), exchange=topology.RESULTS)
        event, result = map(json.loads, shown(child, 2))
        assert child.wait(PATIENCE) == 0

    assert (event["type"], event["body"]["data"]["id"]) == ("batch.succeeded", "b1")
    assert (result["type"], result["source"], result["trust"]) == (
        "interaction.fetched",
        "push",
        "body",
    )
    assert depth(url, topology.BATCHES.name) == 1


def test_only_the_types_that_were_asked_for_are_shown(url: str) -> None:
    with listener("--type", "batch.*", GEMHOOKS_BROKER_URL=url) as child:
        publish(url, message("video.generated", id="v"), message("batch.failed", id="b"))
        (line,) = shown(child, 1)

    assert " batch.failed " in line


def test_what_nobody_takes_is_kept_as_unrouted_though_somebody_listens(url: str) -> None:
    with listener("--type", "#", GEMHOOKS_BROKER_URL=url) as child:
        publish(url, message("ping", id="p"), message("video.generated", id="v"))
        (line,) = shown(child, 1)

    assert " video.generated " in line
    assert depth(url, topology.UNROUTED) == 1


def test_of_a_listener_that_was_killed_nothing_is_left(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/queue.db"
    with closing(SqliteBroker(url)) as broker:
        broker.declare([])
    with listener(GEMHOOKS_BROKER_URL=url) as child:
        child.kill()
    publish(url, message("batch.failed", id="b"))

    with listener(GEMHOOKS_BROKER_URL=url) as second:
        publish(url, message("batch.failed", id="b"))
        shown(second, 1)
        assert len(temporary(url)) == 1
    assert temporary(url) == []
    assert depth(url, topology.BATCHES.name) == 2


def temporary(url: str) -> list[str]:
    with closing(SqliteBroker(url)) as broker, closing(broker.connect()) as db:
        return rows.listeners(db)


def test_each_type_of_a_built_in_queue_is_heard() -> None:
    taken = {each for queue in topology.BUILT_IN for each in queue.bindings}

    assert {each for each in taken if each[0] == topology.EVENTS} < set(listening.bindings())


@contextmanager
def receiver(
    status: int,
) -> Iterator[tuple[str, "queue.SimpleQueue[tuple[dict[str, str], bytes]]"]]:
    requests: queue.SimpleQueue[tuple[dict[str, str], bytes]] = queue.SimpleQueue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            requests.put(({name.lower(): self.headers[name] for name in self.headers}, body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/hook", requests
        server.shutdown()
        thread.join()


def test_what_is_forwarded_is_signed_anew_with_the_same_id(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/queue.db"
    with closing(SqliteBroker(url)) as broker:
        broker.declare([])
    told = message("interaction.completed", id="v1_x")
    with receiver(503) as (hook, requests):
        env = {"GEMHOOKS_BROKER_URL": url, "GEMINI_WEBHOOK_SECRET": SECRET}
        with listener("--forward-to", hook, **env) as child:
            publish(url, told)
            (line,) = shown(child, 1)
        headers, body = requests.get(timeout=PATIENCE)

    assert line.rstrip().endswith("-> 503")
    assert (headers["webhook-id"], body) == (told.id, told.body)
    key = signing.decode_secret(SECRET)
    expected = signing.sign_v1(told.id, headers["webhook-timestamp"], body, key)
    assert headers["webhook-signature"] == expected


def test_the_simulators_events_are_heard_and_its_webhook_is_deleted_afterwards() -> None:
    with Simulator(delay=0.01) as simulator:
        with listener("--simulator", simulator.url, "--count", "1") as child:
            (webhook,) = simulator.webhooks
            forged = sending.headers("msg_1", b"{}", b"another secret")
            assert sending.post(webhook.uri, b"{}", forged) == 401
            body = json.dumps({"type": "batch.expired", "data": {"id": "b"}}).encode()
            kind = {"content-type": "application/json"}
            assert sending.post(f"{simulator.url}/control/events", body, kind) == 200
            (line,) = shown(child, 1)
            assert child.wait(PATIENCE) == 0

        assert " batch.expired " in line
        assert simulator.webhooks == ()


@pytest.mark.parametrize("number", [b"", b"12345678901234567890"])
def test_a_body_that_is_too_deep_to_be_json_again_is_shown(number: bytes) -> None:
    deep = b"[" * 1010 + number + b"]" * 1010
    body = b'{"type":"batch.failed","data":%b}' % deep

    assert "batch.failed" in json_line(Message("msg_1", "batch.failed", body), None)


@pytest.mark.parametrize(
    ("options", "env", "said"),
    [
        ((), {"GEMHOOKS_BROKER_URL": "sqlite:////nowhere/q.db"}, "there is no queue"),
        ((), {"GEMHOOKS_BROKER_URL": "kafka://x"}, "must begin with"),
        ((), {"GEMHOOKS_BROKER_URL": "amqp://127.0.0.1:1/"}, "does not answer"),
        (("--forward-to", "http://127.0.0.1:1/"), {}, "set GEMINI_WEBHOOK_SECRET"),
        (("--simulator", "ftp://x"), {}, "is not an http"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    options: tuple[str, ...], env: dict[str, str], said: str
) -> None:
    command = [sys.executable, "-m", "gemhooks", "listen", *options]
    done = subprocess.run(
        command, env=clean_env(**env), capture_output=True, text=True, check=False, timeout=PATIENCE
    )

    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
