"""A worker as a process: how it dies, stops, and what it says of itself."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from gemhooks import topology
from gemhooks.messages import Message
from gemhooks.queues.connect import connect
from gemhooks.queues.rabbitmq import RabbitBroker
from tests.integration.processes import answers, is_ready, process
from tests.services.ports import free_port
from tests.services.proxy import Proxy, Way
from tests.services.rabbitmq import Broker, RabbitNode
from tests.services.waiting import eventually

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


def lines(notes: Path) -> list[str]:
    return notes.read_text().splitlines() if notes.exists() else []


@pytest.fixture
def start(tmp_path: Path, notes: Path) -> Iterator[Start]:
    """Starts `gemhooks consume handlers:NAME` with an admin port; ends what still runs."""
    with ExitStack() as stack:

        def start_(name: str, url: str, *, admin: int = 0, **env: str) -> subprocess.Popen[bytes]:
            settings = {
                "GEMHOOKS_BROKER_URL": url,
                "GEMHOOKS_DATABASE_URL": f"sqlite:///{tmp_path}/ledger.db",
                "GEMHOOKS_ADMIN_PORT": str(admin),
                "GEMHOOKS_LEASE": "1s",
                "GEMHOOKS_CONCURRENCY": "2",
                "NOTES": str(notes),
                **env,
            }
            here = Path(__file__).parent
            arguments = ("gemhooks", "consume", f"handlers:{name}")
            log = tmp_path / "consumer.log"
            return stack.enter_context(process(*arguments, log=log, env=settings, cwd=here))

        yield start_


def publish(url: str, queue: str, names: Sequence[str]) -> None:
    wanted = topology.Queue(topology.queue_name(queue), ((topology.EVENTS, "batch.failed"),))
    with closing(connect(url, publish_timeout=60.0)) as broker:
        broker.declare([wanted])
        for name in names:
            body = {"type": "batch.failed", "version": "v1", "data": {"id": name}}
            message = Message(f"msg_{name}", "batch.failed", json.dumps(body).encode())
            broker.send(wanted.name, message).result(60)


def test_sigterm_ends_what_runs_and_gives_the_rest_back_at_once(
    amqp_url: str, start: Start, notes: Path
) -> None:
    names = [f"b{number}" for number in range(8)]
    publish(amqp_url, "slow", names)
    first = start("slow", amqp_url)
    eventually(lambda: len(lines(notes)) >= 2, why="two run")
    first.terminate()
    second = start("slow", amqp_url, GEMHOOKS_CONCURRENCY="8")

    assert first.wait(60) == 0
    eventually(lambda: sum(line.startswith("end") for line in lines(notes)) == 8, why="all ended")
    assert sorted(lines(notes)) == sorted(
        f"{what} {name}" for name in names for what in ("begin", "end")
    )
    second.terminate()
    assert second.wait(60) == 0


def test_what_a_frozen_worker_had_not_begun_is_not_begun_once_others_have_done_it(
    amqp_url: str, start: Start, notes: Path, rabbitmq_node: Broker
) -> None:
    names = [f"b{number}" for number in range(4)]
    publish(amqp_url, "slow", names)
    frozen = start("slow", amqp_url, GEMHOOKS_CONCURRENCY="1", GEMHOOKS_PREFETCH="4")
    eventually(lambda: lines(notes) == ["begin b0"], why="one runs, the others are claimed")
    frozen.send_signal(signal.SIGSTOP)
    cut_off(rabbitmq_node, frozen.pid)
    other = start("slow", amqp_url)
    eventually(lambda: {f"end {each}" for each in names} <= {*lines(notes)}, why="all ended")
    frozen.send_signal(signal.SIGCONT)
    eventually(lambda: lines(notes).count("end b0") == 2, why="it ends what it had begun")
    for each in (frozen, other):
        each.terminate()
        assert each.wait(60) == 0

    assert [lines(notes).count(f"begin {name}") for name in names[1:]] == [1, 1, 1]


def cut_off(node: Broker, pid: int) -> None:
    """Close both connections of that process, as RabbitMQ does when nothing comes from it."""

    def listed() -> list[str]:
        found: list[dict[str, Any]] = node.api("GET", "/api/connections")
        ours = [
            each for each in found if str(each.get("user_provided_name", "")).endswith(f" {pid}")
        ]
        return [quote(each["name"], safe="") for each in ours]

    eventually(lambda: len(listed()) == 2, why="its connections are listed")
    for name in listed():
        node.api("DELETE", f"/api/connections/{name}")
    eventually(lambda: not listed(), why="they are closed")


def test_a_second_sigterm_ends_it_at_once(amqp_url: str, start: Start, notes: Path) -> None:
    publish(amqp_url, "blocked", ["b1"])
    port = free_port()
    worker = start("blocked", amqp_url, admin=port, GEMHOOKS_GRACE="300s")
    eventually(lambda: lines(notes) == ["begin b1"], why="it runs")
    eventually(is_ready(port), why="it is ready")
    worker.terminate()
    # Two signals at the same time would be one.
    ready = f"http://127.0.0.1:{port}/readyz"
    eventually(lambda: answers(ready) == 503, why="it has seen the first signal")
    worker.terminate()

    assert worker.wait(60) == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("handler", "noted"), [("blocked", "begin b1"), ("leaving", "end b1")], ids=["it", "a thread"]
)
def test_what_outlives_the_grace_of_a_handler_or_is_left_of_one_does_not_hold_it_up(
    handler: str, noted: str, amqp_url: str, start: Start, notes: Path
) -> None:
    publish(amqp_url, handler, ["b1"])
    worker = start(handler, amqp_url, GEMHOOKS_GRACE="1s")
    eventually(lambda: lines(notes) == [noted], why="it runs, or has ended")
    worker.terminate()

    assert worker.wait(60) == 0


def test_a_database_that_hangs_does_not_hold_it_up(
    amqp_url: str, start: Start, notes: Path, postgres_url: str
) -> None:
    publish(amqp_url, "slow", ["b1", "b2"])
    database = urlsplit(postgres_url)
    with Proxy(int(database.port or 5432), str(database.hostname)) as proxy:
        url = f"{database.scheme}://{database.username}@127.0.0.1:{proxy.port}{database.path}"
        more = {"GEMHOOKS_DATABASE_URL": url, "GEMHOOKS_CONCURRENCY": "1", "GEMHOOKS_LEASE": "60s"}
        worker = start("slow", amqp_url, **more, GEMHOOKS_GRACE="1s")
        eventually(lambda: lines(notes) == ["begin b1"], why="one runs, the other is claimed")
        proxy.silent = frozenset(Way)
        worker.terminate()

        assert worker.wait(60) == 0


@pytest.mark.parametrize("broker", ["amqp", "sqlite"])
def test_what_a_killed_worker_had_comes_at_once_though_a_child_of_its_lives_on(
    broker: str, tmp_path: Path, request: pytest.FixtureRequest, start: Start, notes: Path
) -> None:
    is_file = broker == "sqlite"
    url = f"sqlite:///{tmp_path}/q.db" if is_file else str(request.getfixturevalue("amqp_url"))
    admin = free_port()
    publish(url, "forking", ["child", "b1"])
    killed = start("forking", url, admin=admin, GEMHOOKS_CONCURRENCY="1")
    eventually(lambda: any("pid" in line for line in lines(notes)), why="its child runs")
    child = int(next(line for line in lines(notes) if "pid" in line).split()[1])
    try:
        killed.kill()
        killed.wait(60)
        start("forking", url, admin=admin)
        eventually(lambda: "end b1" in lines(notes), why="another took it")
        os.kill(child, 0)  # it lives
    finally:
        os.kill(child, signal.SIGKILL)


def test_the_child_that_a_handler_forks_is_no_worker(
    amqp_url: str, start: Start, notes: Path
) -> None:
    names = [f"b{number}" for number in range(4)]
    publish(amqp_url, "forking", ["fork", *names])
    start("forking", amqp_url, GEMHOOKS_CONCURRENCY="1")
    eventually(lambda: "end b3" in lines(notes), why="all have ended")
    eventually(lambda: "forked" in lines(notes), why="the child ran")

    assert lines(notes).count("end fork") == 1
    assert [lines(notes).count(f"begin {name}") for name in names] == [1] * 4


def test_an_idle_worker_ends_at_once(amqp_url: str, start: Start) -> None:
    admin = free_port()
    worker = start("slow", amqp_url, admin=admin, GEMHOOKS_GRACE="300s")
    eventually(is_ready(admin), why="it is ready")
    worker.terminate()

    assert worker.wait(60) == 0  # of the grace it needs nothing


def test_a_worker_that_still_waits_for_its_broker_ends_before_compose_kills_it(
    start: Start,
) -> None:
    admin = free_port()
    worker = start("slow", f"amqp://guest:guest@127.0.0.1:{free_port()}/", admin=admin)
    eventually(lambda: answers(f"http://127.0.0.1:{admin}/livez") == 200, why="it is live")
    worker.terminate()

    assert worker.wait(40) == 0  # what docker-compose.yml grants


def test_health_answers_while_every_handler_is_busy(
    amqp_url: str, start: Start, notes: Path
) -> None:
    admin = free_port()
    publish(amqp_url, "blocked", ["b1", "b2", "b3"])
    start("blocked", amqp_url, admin=admin, GEMHOOKS_GRACE="0s")
    eventually(lambda: len(lines(notes)) == 2, why="both threads are busy")

    assert answers(f"http://127.0.0.1:{admin}/livez") == 200
    eventually(is_ready(admin), why="it is ready, too")
    assert len(lines(notes)) == 2


@pytest.mark.parametrize("thread", ["gemhooks-rabbitmq", "ledger-claims"])
def test_a_worker_that_has_lost_a_thread_it_consumes_by_is_neither_live_nor_ready(
    amqp_url: str, start: Start, thread: str
) -> None:
    admin = free_port()
    start("fatal", amqp_url, admin=admin)
    eventually(is_ready(admin), why="it is ready")
    publish(amqp_url, "fatal", [thread])

    def is_live() -> bool:  # the next message has the thread notice
        publish(amqp_url, "fatal", [f"b{time.monotonic_ns()}"])
        return answers(f"http://127.0.0.1:{admin}/livez") == 200

    eventually(lambda: not is_live(), why="it says that only a new process helps")
    assert answers(f"http://127.0.0.1:{admin}/readyz") == 503


def test_readiness_follows_the_broker_and_liveness_does_not(
    own_node: RabbitNode, start: Start
) -> None:
    own_node.start()
    admin = free_port()
    with own_node.vhost() as url:
        start("slow", url, admin=admin)
        eventually(is_ready(admin), why="it is ready")
        own_node.stop()
        eventually(lambda: not is_ready(admin)(), why="it says that it is not")
        assert answers(f"http://127.0.0.1:{admin}/livez") == 200
        own_node.start()
        eventually(is_ready(admin), why="it is ready again")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("broker", ["rabbitmq", "sqlite"])
def test_without_a_ledger_too_only_the_message_that_kills_its_process_is_given_up(
    request: pytest.FixtureRequest, broker: str, start: Start, notes: Path, tmp_path: Path
) -> None:
    on_file = f"sqlite:///{tmp_path}/queue.db"
    url = request.getfixturevalue("amqp_url") if broker == "rabbitmq" else on_file
    neighbours = [f"b{number}" for number in range(12)]
    publish(url, "deadly", [*neighbours[:3], "poison", *neighbours[3:]])
    env = {"GEMHOOKS_LEDGER": "off", "GEMHOOKS_RETRY_SCHEDULE": "1s 1s", "GEMHOOKS_PREFETCH": "50"}
    letters = topology.dead_letters(topology.queue_name("deadly"))

    with closing(connect(url, publish_timeout=5.0)) as opened:
        worker = start("deadly", url, **env)

        def is_over() -> bool:
            nonlocal worker
            if worker.poll() is not None:
                worker = start("deadly", url, **env)
            ended = {line.removeprefix("end ") for line in lines(notes)}
            return bool(opened.browse(letters, 50)) and ended == set(neighbours)

        eventually(is_over, seconds=600, why="all neighbours succeed")
        ((message, headers),) = opened.browse(letters, 50)
    assert (message.id, headers["gemhooks-dead-reason"]) == ("msg_poison", "kills_its_process")
    assert headers["gemhooks-dead-attempts"] == 3


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_message_that_kills_its_process_is_given_up_and_its_neighbours_succeed(
    amqp_url: str, start: Start, notes: Path
) -> None:
    neighbours = [f"b{number}" for number in range(40)]  # all claimed ahead, most never begun
    publish(amqp_url, "deadly", [*neighbours[:3], "poison", *neighbours[3:]])
    letters = topology.dead_letters(topology.queue_name("deadly"))
    deaths = 0

    def ended() -> set[str]:  # one that was killed before its mark is noted twice
        return {line.removeprefix("end ") for line in lines(notes)}

    with closing(RabbitBroker(amqp_url)) as broker:
        deadline = time.monotonic() + 600
        worker = start("deadly", amqp_url, GEMHOOKS_PREFETCH="200")
        while not (dead := broker.browse(letters, 50)) or not ended() >= set(neighbours):
            assert time.monotonic() < deadline, (deaths, lines(notes))
            if worker.poll() is not None:
                deaths += worker.returncode == -signal.SIGKILL
                worker = start("deadly", amqp_url, GEMHOOKS_PREFETCH="200")
            time.sleep(0.2)

    ((message, headers),) = dead
    assert (message.id, headers["gemhooks-dead-reason"]) == ("msg_poison", "kills_its_process")
    assert ended() == set(neighbours)
    assert 5 <= deaths <= 7
    assert headers["gemhooks-dead-attempts"] == 6
    assert str(headers["gemhooks-dead-first-at"]) < str(headers["gemhooks-dead-at"])
    os.kill(worker.pid, signal.SIGTERM)
    assert worker.wait(30) == 0
