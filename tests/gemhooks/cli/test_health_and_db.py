"""`gemhooks health`, the probe of a container; `gemhooks db migrate`, its first step."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from prometheus_client import CollectorRegistry

from gemhooks.admin import AdminServer
from gemhooks.cli import db
from gemhooks.cli.health import answer, reachable
from gemhooks.errors import LedgerUnavailable, Misconfigured, Unavailable
from gemhooks.ledger import inspecting
from tests.integration.processes import command
from tests.services.ports import free_port


@pytest.fixture
def admin() -> Iterator[AdminServer]:
    server = AdminServer("127.0.0.1", 0, CollectorRegistry(), lambda: True, lambda: False)
    server.start()
    yield server
    server.stop()


def test_health_is_readiness_and_liveness_on_request(admin: AdminServer) -> None:
    env = {"GEMHOOKS_ADMIN_HOST": "127.0.0.1", "GEMHOOKS_ADMIN_PORT": str(admin.port)}

    ready, live = (
        command("gemhooks", "health", "--timeout", "60", env=env),
        command("gemhooks", "health", "--live", "--timeout", "60", env=env),
    )

    assert (ready.returncode, live.returncode) == (1, 0)
    assert ready.stderr == f"gemhooks: /readyz on port {admin.port} says 503.\n"


def test_a_process_that_does_not_answer_is_not_well() -> None:
    with pytest.raises(Unavailable, match="nobody answers"):
        answer("127.0.0.1", free_port(), "/readyz", 1.0)


def test_a_server_on_all_interfaces_is_asked_on_this_machine() -> None:
    assert [reachable(each) for each in ("0.0.0.0", "::", "127.0.0.9")] == [
        "127.0.0.1",
        "::1",
        "127.0.0.9",
    ]


def test_many_replicas_migrate_one_database_at_once(postgres_url: str) -> None:
    gate = threading.Barrier(6)

    def one() -> None:
        gate.wait()
        db.bring_up_to_date(postgres_url, wait=0)

    with ThreadPoolExecutor(6) as pool:
        for each in [pool.submit(one) for _ in range(6)]:
            each.result()

    assert inspecting.inspect(postgres_url) is inspecting.State.CURRENT


def test_a_database_that_is_away_is_waited_for_only_so_long() -> None:
    url = f"postgresql://hooks@127.0.0.1:{free_port()}/none"

    with pytest.raises(LedgerUnavailable):
        db.bring_up_to_date(url, wait=0)


def test_tables_of_a_newer_release_are_left_alone(postgres_url: str) -> None:
    db.bring_up_to_date(postgres_url, wait=0)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(Misconfigured, match="another release"):
        db.bring_up_to_date(postgres_url, wait=0)


def test_a_server_that_was_set_up_without_an_encoding_is_used_all_the_same(
    postgres_url: str,
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE plain ENCODING SQL_ASCII LOCALE 'C' TEMPLATE template0")
    try:
        url = urlunsplit(urlsplit(postgres_url)._replace(path="/plain"))
        db.bring_up_to_date(url, wait=0)
        assert inspecting.inspect(url) is inspecting.State.CURRENT
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DROP DATABASE plain WITH (FORCE)")


def test_migrate_says_that_it_is_done(tmp_path: Path) -> None:
    env = {"GEMHOOKS_DATABASE_URL": f"sqlite:///{tmp_path}/ledger.db"}

    done = command("gemhooks", "db", "migrate", env=env)

    assert (done.returncode, done.stdout) == (0, "The tables are those of this release.\n")
