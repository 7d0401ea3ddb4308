"""The services of the suite are real, private, crash like real ones, and leave no trace."""

import dataclasses
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pika
import psycopg
import pytest
import structlog
from pika.exceptions import AMQPConnectionError
from structlog.testing import capture_logs

from tests.integration.processes import script
from tests.services import debian, install
from tests.services.errors import MissingServiceError, NotOursError, ServiceError
from tests.services.home import Home, processes_of
from tests.services.install import ensure, no_service_starts
from tests.services.ports import free_port
from tests.services.postgresql import Database, PostgresServer
from tests.services.rabbitmq import Broker, RabbitNode
from tests.services.waiting import wait_until

_log = structlog.get_logger()
NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


@pytest.fixture
def our_node(rabbitmq_node: Broker, amqp_url: str) -> RabbitNode:
    """Give the run's node, with a vhost on it; these tests are about a node of our own."""
    assert isinstance(rabbitmq_node, RabbitNode), "unset GEMHOOKS_TEST_AMQP_URL for these tests"
    return rabbitmq_node


# These tests are about services of our own, whatever was given to the run.
@pytest.fixture(scope="module")
def rabbitmq_node(own_node: RabbitNode) -> RabbitNode:
    return own_node


@pytest.fixture(scope="module")
def postgres_server(own_server: PostgresServer) -> PostgresServer:
    return own_server


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make the machine one without the services, on which nothing may be installed."""
    monkeypatch.setenv("GEMHOOKS_TEST_INSTALL", "0")
    for name, program in install.PROGRAMS.items():
        empty = dataclasses.replace(program, places=(f"{tmp_path}/*/{name}",))
        monkeypatch.setitem(install.PROGRAMS, name, empty)


def publish(url: str, queue: str, body: bytes) -> None:
    """Publish a durable message and wait for the broker's confirmation."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
        channel.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=2)
        channel.basic_publish("", queue, body, properties, mandatory=True)


def fetch(url: str, queue: str) -> bytes | None:
    """Take one message, if there is one."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        _, _, body = connection.channel().basic_get(queue, auto_ack=True)
        return body


def vhosts(broker: Broker) -> set[str]:
    """Return the names of all vhosts."""
    return {vhost["name"] for vhost in broker.api("GET", "/api/vhosts")}


def databases(server: Database) -> set[str]:
    """Return the names of all databases."""
    with psycopg.connect(server.url) as connection:
        rows = connection.execute("SELECT datname FROM pg_database").fetchall()
    return {str(row[0]) for row in rows}


def test_a_node_takes_a_message_and_gives_it_back(amqp_url: str) -> None:
    publish(amqp_url, "q", b"hello")
    assert fetch(amqp_url, "q") == b"hello"


def test_a_confirmed_message_survives_a_killed_node(our_node: RabbitNode, amqp_url: str) -> None:
    publish(amqp_url, "q", b"kept")
    our_node.kill()
    with pytest.raises(AMQPConnectionError):
        fetch(amqp_url, "q")
    our_node.start()
    assert fetch(amqp_url, "q") == b"kept"


def test_rabbitmqctl_talks_to_our_node_only(our_node: RabbitNode, amqp_url: str) -> None:
    listed = our_node.ctl("list_vhosts", "name", "--no-table-headers").split()
    assert amqp_url.rsplit("/", 1)[1] in listed
    with pytest.raises(ServiceError, match=r"rabbitmqctl failed: .*nonsense"):
        our_node.ctl("nonsense")


def test_a_second_node_neither_meets_the_first_nor_leaves_anything(our_node: RabbitNode) -> None:
    with RabbitNode() as second:
        assert second.home is not None
        folder = second.home.folder
        assert len(processes_of(folder)) > 1
        assert our_node.ctl("eval", f"net_adm:ping('{second.name}').").strip() == "pang"
        assert [node["name"] for node in second.api("GET", "/api/nodes")] == [second.name]
    assert_nothing_is_left(folder, second.amqp_port, second.management_port, second.epmd_port)


def test_each_test_has_a_vhost_of_its_own_that_is_gone_afterwards(rabbitmq_node: Broker) -> None:
    with rabbitmq_node.vhost() as one, rabbitmq_node.vhost("with/slash") as other:
        publish(one, "q", b"mine")
        publish(other, "q", b"yours")
        assert (fetch(one, "q"), fetch(other, "q")) == (b"mine", b"yours")
        assert {one.rsplit("/", 1)[1], "with/slash"} <= vhosts(rabbitmq_node)
    assert not {one.rsplit("/", 1)[1], "with/slash"} & vhosts(rabbitmq_node)


def test_management_answers_at_its_url(rabbitmq_node: Broker, management_url: str) -> None:
    assert management_url == rabbitmq_node.management_url
    assert rabbitmq_node.api("GET", "/api/overview")["management_version"]
    with pytest.raises(ServiceError, match="GET /api/nonsense: 404"):
        rabbitmq_node.api("GET", "/api/nonsense")


def test_a_node_that_cannot_start_says_why_and_leaves_nothing() -> None:
    node = RabbitNode()
    taken = socket.create_server(("127.0.0.1", node.amqp_port))
    with taken, pytest.raises(ServiceError, match=r"did not start:[^$]*eaddrinuse"):
        node.start()
    assert node.home is None
    assert not node.running


def test_a_committed_row_survives_a_crashed_server(
    own_server: PostgresServer, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
    own_server.crash()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(postgres_url)
    own_server.start()
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT one FROM kept").fetchall() == [(1,)]


def test_each_test_has_a_database_of_its_own_that_is_gone_afterwards(
    postgres_server: Database,
) -> None:
    with postgres_server.database() as url:
        name = url.rsplit("/", 1)[1]
        assert name in databases(postgres_server)
        connection = psycopg.connect(url)  # a test that forgets to close is no reason to keep it
    assert name not in databases(postgres_server)
    connection.close()


@pytest.mark.parametrize("crash", [False, True], ids=["running", "crashed"])
def test_a_server_leaves_nothing(crash: bool) -> None:  # noqa: FBT001
    with PostgresServer() as server:
        assert server.home is not None
        folder = server.home.folder
        processes = processes_of(folder)
        assert len(processes) > 1
        assert shared_memory() & set(processes)
        if crash:
            server.crash()
    assert_nothing_is_left(folder, server.port)
    assert not shared_memory() & set(processes)


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize("name", ["rabbitmq", "postgresql"])
def test_a_missing_program_is_one_sentence_that_says_what_to_install(name: str) -> None:
    with pytest.raises(MissingServiceError) as caught:
        ensure(name)
    sentence = str(caught.value)
    assert f"apt-get install {install.PROGRAMS[name].package}" in sentence
    assert "GEMHOOKS_TEST_" in sentence
    assert sentence.count(". ") == 0
    assert sentence.endswith(".")


@pytest.fixture
def policy(tmp_path: Path) -> Iterator[Path]:
    """Give the place of a policy file."""
    yield tmp_path / "policy-rc.d"
    (tmp_path / "policy-rc.d").unlink(missing_ok=True)


def test_no_service_is_started_while_packages_are_installed(policy: Path) -> None:
    with no_service_starts(policy):
        assert subprocess.run([policy], check=False).returncode == 101
    assert not policy.exists()


def test_a_policy_that_was_there_before_is_there_afterwards(policy: Path) -> None:
    policy.write_text("#!/bin/sh\nexit 104\n", encoding="utf-8")
    policy.chmod(0o750)
    with pytest.raises(ZeroDivisionError), no_service_starts(policy):
        raise ZeroDivisionError
    assert policy.read_text(encoding="utf-8") == "#!/bin/sh\nexit 104\n"
    assert policy.stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("crash", ["stop", "kill", "restart", "ctl"])
def test_a_given_broker_is_never_stopped(crash: str) -> None:
    given = Broker("amqp://127.0.0.1:1", "http://127.0.0.1:1")
    with pytest.raises(NotOursError, match="GEMHOOKS_TEST_AMQP_URL is not ours"):
        getattr(given, crash)()


@pytest.mark.parametrize("crash", ["stop", "crash", "restart"])
def test_a_given_database_is_never_stopped(crash: str) -> None:
    with pytest.raises(NotOursError, match="GEMHOOKS_TEST_DATABASE_URL is not ours"):
        getattr(Database(NOWHERE), crash)()


def test_what_outlives_its_server_is_ended_with_the_folder() -> None:
    home = Home.make("stray", user="nobody")
    stray = home.launch(["sleep", "600"])
    home.remove()
    assert stray.wait(60) == -signal.SIGKILL
    assert not home.folder.exists()


def test_a_free_port_is_free_and_never_given_twice() -> None:
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
    with socket.create_server(("127.0.0.1", ports[0])):
        pass


def test_a_port_is_given_to_no_other_process() -> None:
    asked = script(
        "from tests.services import ports, errors\n"
        f"ports._PORTS = [{free_port()}]\n"
        "try: print(ports.free_port())\n"
        "except errors.ServiceError as error: print(error)"
    )
    assert asked.stdout == "no free port on 127.0.0.1\n"


def test_waiting_ends_at_its_deadline_and_says_for_what() -> None:
    with pytest.raises(ServiceError, match="the moon: did not happen within 0 s"):
        wait_until(lambda: False, "the moon", seconds=0)


@pytest.mark.parametrize("turn", [1, 2])
def test_bound_log_values_and_configuration_end_with_their_test(turn: int) -> None:
    assert structlog.contextvars.get_contextvars() == {}
    assert not structlog.is_configured()
    with capture_logs() as lines:
        _log.info("heard")
    assert len(lines) == 1
    structlog.configure(processors=[], cache_logger_on_first_use=True)
    _log.bind()
    structlog.contextvars.bind_contextvars(turn=turn)


def assert_nothing_is_left(folder: Path, *ports: int) -> None:
    """Assert that no process, no file and no open port remains of a service."""
    assert processes_of(folder) == []
    assert not folder.exists()
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass


def shared_memory() -> set[int]:
    """The processes that made the System V segments there are: a crash leaves one behind."""
    path = Path("/proc/sysvipc/shm")
    lines = path.read_text("ascii").splitlines()[1:] if path.exists() else []
    return {int(line.split()[4]) for line in lines}


def test_another_debian_is_unpacked_once_by_whoever_comes_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made, begun, go_on = list[Path](), threading.Event(), threading.Event()

    def make(root: Path, *_: str) -> None:
        made.append(root)
        begun.set()
        assert go_on.wait(30)
        root.mkdir()

    monkeypatch.setattr(debian, "ROOTS", tmp_path)
    monkeypatch.setattr(debian, "_require_root", lambda _: None)
    monkeypatch.setattr(debian, "_make", make)
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(debian.ensure, "trixie", "a-package") for _ in range(2)]
        assert begun.wait(30)
        go_on.set()
        roots = [each.result(30) for each in both]

    assert [*made, *made] == roots
