"""What all tests share: real services, started when a test first asks, and clean logging."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import structlog

from tests.services.errors import ServiceError
from tests.services.install import ensure
from tests.services.postgresql import Database, PostgresServer
from tests.services.rabbitmq import Broker, RabbitNode, programs

# The same examples in every run, so that only a change can fail it; `make fuzz` draws others.
# No deadlines: a busy machine is no failure.
hypothesis.settings.register_profile("suite", derandomize=True, deadline=None)
hypothesis.settings.register_profile("fuzz", max_examples=1000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("GEMHOOKS_TEST_HYPOTHESIS", "suite"))

_GIVEN = {
    "rabbitmq": ("GEMHOOKS_TEST_AMQP_URL", "GEMHOOKS_TEST_MANAGEMENT_URL"),
    "postgresql": ("GEMHOOKS_TEST_DATABASE_URL",),
}
_FIXTURES = {"rabbitmq_node": "rabbitmq", "postgres_server": "postgresql"}
_ENSURE: dict[str, Callable[[], object]] = {
    "rabbitmq": programs,
    "postgresql": lambda: ensure("postgresql"),
    "amqp-tools": lambda: ensure("amqp-tools"),
    "prometheus": lambda: ensure("prometheus"),
    "alertmanager": lambda: ensure("alertmanager"),
}
_OWN = {
    "own_node": "rabbitmq",
    "own_server": "postgresql",
    "amqp_tools": "amqp-tools",
    "prometheus": "prometheus",
    "alertmanager": "alertmanager",
}  # needed even where others are given


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two at least, for tests mostly wait; four at most, for each has services of its own."""
    return min(4, max(2, os.cpu_count() or 2))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fail the run before its first test if a service is missing: no test is ever skipped.

    Here and not in the fixtures, because an installation may take longer than a test may.
    """
    if session.config.option.collectonly:
        return
    wanted = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    try:
        shared = {_FIXTURES[name] for name in wanted & _FIXTURES.keys()}
        own = {_OWN[name] for name in wanted & _OWN.keys()}
        for service in own | {each for each in shared if not _given(each)}:
            _ENSURE[service]()
    except ServiceError as error:
        raise pytest.UsageError(str(error)) from error


def _given(service: str) -> list[str]:
    """Return the URLs of a service that was given to the run, all of them or none."""
    values = [os.environ.get(name, "") for name in _GIVEN[service]]
    if any(values) and not all(values):
        raise ServiceError(f"set all of {' and '.join(_GIVEN[service])}, or none")
    return values if all(values) else []


@pytest.fixture(scope="session")
def prometheus() -> Path:
    """Give the folder with Prometheus and promtool."""
    return ensure("prometheus")


@pytest.fixture(scope="session")
def alertmanager() -> Path:
    """Give the folder with amtool."""
    return ensure("alertmanager")


@pytest.fixture(scope="session")
def own_node() -> Iterator[RabbitNode]:
    """Give a RabbitMQ that a test may stop or kill, and need not start again."""
    with RabbitNode() as node:
        yield node


@pytest.fixture(scope="session")
def own_server() -> Iterator[PostgresServer]:
    """Give a PostgreSQL that a test may stop or crash, and need not start again."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq_node(request: pytest.FixtureRequest) -> Broker:
    """Give the RabbitMQ that was given to the run, else one of our own."""
    given = _given("rabbitmq")
    node: Broker = Broker(*given) if given else request.getfixturevalue("own_node")
    return node


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Database:
    """Give the PostgreSQL that was given to the run, else one of our own."""
    given = _given("postgresql")
    server: Database = Database(*given) if given else request.getfixturevalue("own_server")
    return server


@pytest.fixture(scope="session")
def amqp_tools() -> Path:
    """Give the folder of amqp-consume and its like."""
    return ensure("amqp-tools")


@pytest.fixture
def amqp_url(rabbitmq_node: Broker) -> Iterator[str]:
    """Give the URL of a vhost that only this test has."""
    rabbitmq_node.start()  # the test before may have left it stopped
    with rabbitmq_node.vhost() as url:
        yield url
        rabbitmq_node.start()  # or this one: the vhost is deleted on a running node


@pytest.fixture
def management_url(rabbitmq_node: Broker) -> str:
    """Give the URL of RabbitMQ's HTTP API, without credentials; `rabbitmq_node.api` asks it."""
    rabbitmq_node.start()
    return rabbitmq_node.management_url


@pytest.fixture
def postgres_url(postgres_server: Database) -> Iterator[str]:
    """Give the URL of a database that only this test has."""
    postgres_server.start()
    with postgres_server.database() as url:
        yield url
        postgres_server.start()


@pytest.fixture(autouse=True)
def _fresh_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep one test's logging configuration and bound values from the next."""
    configure: Callable[..., None] = structlog.configure

    def configure_uncached(**given: Any) -> None:
        configure(**given | {"cache_logger_on_first_use": False})

    monkeypatch.setattr(
        structlog, "configure", configure_uncached
    )  # a cached one outlives its test
    _reset_logging()
    yield
    _reset_logging()


def _reset_logging() -> None:
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
