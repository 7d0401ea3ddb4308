"""``gemhooks doctor`` names what is wrong and what to do, and changes nothing."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from time import time
from typing import Any

import pytest
from typer.testing import CliRunner

from gemhooks.cli import app
from gemhooks.doctor.findings import Check, Finding, Level
from gemhooks.doctor.gemini import look_at_clock
from gemhooks.doctor.ours import look_at_broker
from gemhooks.errors import Unavailable
from gemhooks.gemini import Gemini
from gemhooks.ledger import inspecting, open_ledger
from gemhooks.ledger.inspecting import State
from gemhooks.messages import Message
from gemhooks.queues.connect import connect
from gemhooks.signing import decode_secret, fingerprint
from gemhooks.simulator import Simulator
from gemhooks.topology import BATCHES, BUILT_IN, FUNCTIONS, INTERACTIONS, VIDEOS
from gemhooks.webhooks.places import SecretPlace
from gemhooks.webhooks.wishes import SUBSCRIBABLE
from tests.gemhooks.webhooks.helpers import receiver
from tests.services.rabbitmq import Broker
from tests.services.waiting import eventually

NAMES = [queue.name for queue in BUILT_IN]
PASSWORD = "hunter2hunter2"
Doctor = Callable[..., tuple[int, dict[str, list[dict[str, str]]], str]]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Doctor:
    """The exit code, the findings by check, and all that was printed."""
    monkeypatch.chdir(tmp_path)
    for name in ("GEMINI_API_KEY", "GEMINI_WEBHOOK_SECRET", "GEMINI_WEBHOOK_SECRET_FILE"):
        monkeypatch.delenv(name, raising=False)

    def doctor(*arguments: str, **env: str) -> tuple[int, dict[str, list[dict[str, str]]], str]:
        command = ["doctor", "--format", "json", "--timeout", "60", *arguments]
        result = CliRunner().invoke(app, command, env=env)
        found: dict[str, list[dict[str, str]]] = {}
        for each in json.loads(result.stdout):
            found.setdefault(each["check"], []).append(each)
        return result.exit_code, found, result.output

    return doctor


def levels(findings: list[dict[str, str]]) -> set[str]:
    return {each["level"] for each in findings}


def test_a_deployment_in_order_is_green(doctor: Doctor, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/ledger.db"
    open_ledger(database).close()
    with Simulator(retry_base=0.05) as simulator, receiver_of(simulator, tmp_path) as (admin, env):
        code, found, _ = doctor("--receiver", admin, GEMHOOKS_DATABASE_URL=database, **env)

    assert code == 0
    assert list(found) == [
        "key", "held", "clock", "api", "webhook", "events", "secrets", "receiver", "ping",
        "broker", "queues", "database", "results",
    ]  # fmt: skip
    green = {name: levels(lines) for name, lines in found.items() if name != "queues"}
    assert set.union(*green.values()) == {"green"}
    assert "no process consumes" in found["queues"][0]["text"]


def test_keys_are_named_by_their_fingerprints_alone(doctor: Doctor, tmp_path: Path) -> None:
    with Simulator(retry_base=0.05) as simulator, receiver_of(simulator, tmp_path) as (admin, env):
        secret = (tmp_path / "secret").read_text().strip()
        _, found, printed = doctor("--no-ping", "--receiver", admin, **env)
    name = fingerprint(decode_secret(secret))

    assert [name in found[check][0]["text"] for check in ("held", "receiver")] == [True, True]
    assert secret.removeprefix("whsec_") not in printed


def test_a_secret_that_is_none_is_told_though_gemini_is_away(doctor: Doctor) -> None:
    _, found, _ = doctor(
        GEMINI_WEBHOOK_SECRET="changeme", GEMHOOKS_GEMINI_BASE_URL="http://[::1]:1"
    )

    assert "placeholder" in found["held"][0]["text"]


def test_strict_counts_yellow_as_red(doctor: Doctor, tmp_path: Path) -> None:
    with Simulator(retry_base=0.05) as simulator, receiver_of(simulator, tmp_path) as (admin, env):
        assert doctor("--no-ping", "--receiver", admin, **env)[0] == 0
        assert doctor("--no-ping", "--strict", "--receiver", admin, **env)[0] == 1


@contextmanager
def receiver_of(simulator: Simulator, folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A receiver with a webhook of its own, and the settings that fit."""
    gemini = Gemini("any", base_url=simulator.url)
    hook = gemini.webhooks.create(uri="http://127.0.0.1:9/x", events=("batch.failed",))
    assert hook.new_signing_secret
    SecretPlace(folder / "secret").save(hook.new_signing_secret.get_secret_value(), hook.id)
    env = {
        "GEMINI_API_KEY": "k",
        "GEMHOOKS_GEMINI_BASE_URL": simulator.url,
        "GEMINI_WEBHOOK_SECRET_FILE": str(folder / "secret"),
        "GEMHOOKS_BROKER_URL": f"sqlite:///{folder}/queue.db",
        "GEMHOOKS_RESULTS_URL": str(folder / "results"),
    }
    with receiver(folder, folder / "secret") as here:
        gemini.webhooks.update(hook.id, uri=here.uri, subscribed_events=list(SUBSCRIBABLE))
        gemini.close()
        yield here.admin, env


def test_where_nothing_runs_each_line_is_red_with_a_remedy_and_no_password(
    doctor: Doctor, tmp_path: Path
) -> None:
    code, found, output = doctor(
        GEMINI_API_KEY=f"AIza{PASSWORD}",
        GEMHOOKS_GEMINI_BASE_URL="http://127.0.0.1:9",
        GEMHOOKS_BROKER_URL=f"amqp://user:{PASSWORD}@127.0.0.1:9/",
        GEMHOOKS_DATABASE_URL=f"postgresql://user:{PASSWORD}@127.0.0.1:9/x",
        GEMHOOKS_RESULTS_URL=f"nowhere://user:{PASSWORD}@host/x",
        GEMHOOKS_RECEIVERS="http://127.0.0.1:9",
    )

    assert code == 1
    for name in ("clock", "api", "receiver", "broker", "database", "results"):
        assert levels(found[name]) == {"red"}, name
        assert all(each["remedy"] for each in found[name])
    assert levels(found["webhook"]) == {"skipped"}
    assert PASSWORD not in output
    assert not list(tmp_path.iterdir())  # it made nothing


def test_a_refused_webhook_and_a_foreign_secret_are_red(doctor: Doctor, tmp_path: Path) -> None:
    with Simulator(retry_base=0.05) as simulator, receiver_of(simulator, tmp_path) as (admin, env):
        gemini = Gemini("any", base_url=simulator.url)
        (hook,) = gemini.webhooks.list()
        gemini.webhooks.rotate(hook.id)  # by somebody else
        gemini.webhooks.update(hook.id, state="disabled_due_to_failed_deliveries")
        gemini.close()
        code, found, _ = doctor("--no-ping", "--receiver", admin, **env)

    assert code == 1
    assert found["webhook"][0]["remedy"].endswith(f"gemhooks webhook enable {hook.id}")
    assert f"rotate {hook.id}" in found["secrets"][0]["remedy"]


@pytest.mark.parametrize(
    ("skew", "level"), [(0, Level.GREEN), (60, Level.YELLOW), (-60, Level.YELLOW), (400, Level.RED)]
)
def test_a_clock_that_is_off_is_told(skew: int, level: Level) -> None:
    with answering(lambda: formatdate(time() + skew, usegmt=True)) as url:
        (finding,) = look_at_clock(url)

    assert finding.level is level


@contextmanager
def answering(date: Callable[[], str]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response_only(404)
            self.send_header("Date", date())
            self.end_headers()

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_database_is_looked_at_and_left_as_it_is(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    assert inspecting.inspect(url) is State.EMPTY
    assert not list(tmp_path.iterdir())
    ledgers = open_ledger(url)
    try:
        assert inspecting.inspect(url) is State.CURRENT
        ledgers.database.write(version("a newer one"))
        assert inspecting.inspect(url) is State.NEWER
        ledgers.database.write(version("0001"))
        assert inspecting.inspect(url) is State.OLDER
    finally:
        ledgers.close()


def version(name: str) -> Callable[[Any], None]:
    def write(connection: Any) -> None:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{name}'")  # noqa: S608

    return write


def test_a_queue_that_a_file_has_not_is_missing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/queue.db"
    with closing(connect(url, publish_timeout=60)) as broker:
        broker.declare([])

    found = [each.text for each in look_at_broker(url, (*NAMES, "gemhooks.mine"), "")]

    assert found[0] == "missing: gemhooks.mine"
    assert not [text for text in found[1:] if "mine" in text]


def test_queues_consumers_and_arguments_are_seen_on_rabbitmq(
    amqp_url: str, management_url: str, rabbitmq_node: Broker
) -> None:
    queues = f"/api/queues/{amqp_url.rpartition('/')[2]}"
    assert next(iter(look_at_broker(amqp_url, (), ""))).level is Level.RED  # nothing there, yet
    other = {"durable": True, "arguments": {"x-queue-type": "quorum"}}
    rabbitmq_node.api("PUT", f"{queues}/{BATCHES.name}", other)
    with closing(connect(amqp_url, publish_timeout=60)) as broker:
        eventually(broker.is_ready, why="all but one queue is declared")
        broker.consume(INTERACTIONS.name, lambda _: None, prefetch=1)
        broker.publisher.publish(Message("m", "video.generated", b"{}")).result(60)
        rabbitmq_node.api("DELETE", f"{queues}/{FUNCTIONS.name}")

        wanted = {
            f"missing: {FUNCTIONS.name}": Level.RED,
            f"{VIDEOS.name}: no consumer, 1 waiting": Level.RED,
            f"{INTERACTIONS.name}: 1 consumers, 0 waiting": Level.GREEN,
        }
        found: dict[str, Level] = {}

        def are_seen() -> bool:
            found.clear()
            looked = look_at_broker(amqp_url, NAMES, management_url)
            found.update({each.text: each.level for each in looked})
            return wanted.items() <= found.items()

        eventually(are_seen, why=f"{wanted}")

    (different,) = [text for text in found if "is needed" in text]
    assert different.startswith(f"{BATCHES.name} has x-delivery-limit=None")


def test_a_check_that_breaks_is_a_finding_and_hides_no_other() -> None:
    def broken() -> list[Finding]:
        raise RuntimeError("secret")

    def away() -> list[Finding]:
        raise Unavailable("it is away")

    (one,) = Check("a", broken, "look").findings()
    (two,) = Check("b", away, "start it").findings()

    assert (one.level, one.text) == (Level.RED, "the check itself failed (RuntimeError)")
    assert (two.level, two.text, two.remedy) == (Level.RED, "it is away", "start it")
