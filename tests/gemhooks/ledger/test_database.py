"""What happens when the database is wrong, away, or comes back."""

from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from gemhooks.doctor.findings import Level
from gemhooks.doctor.ours import look_at_database
from gemhooks.errors import LedgerUnavailable, Misconfigured
from gemhooks.ledger import Ledgers, open_ledger
from gemhooks.ledger.database import Database as LedgerDatabase
from gemhooks.ledger.database import connect
from gemhooks.ledger.migrate import migrate, upgrade
from gemhooks.ledger.tables import metadata
from gemhooks.messages import Claim
from tests.services.ports import free_port
from tests.services.postgresql import Database


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hunter2",
        "mysql://me:hunter2@host/db",
        "postgresql://me:hunter2@host:port/db",
        "sqlite://",
        "sqlite:///:memory:",
        "postgresql://me:hunter2@127.0.0.1:1/db?no_such_option=1",
    ],
)
def test_a_wrong_url_is_one_sentence_without_its_password(url: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        open_ledger(url)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_database_is_misconfigured(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("not a database, but long enough to look like a header" * 50)
    with pytest.raises(Misconfigured, match="not a database"):
        open_ledger(f"sqlite:///{tmp_path}/x.db")


def test_a_server_that_is_away_is_unavailable() -> None:
    with pytest.raises(LedgerUnavailable) as caught:
        open_ledger(f"postgresql://me:hunter2@127.0.0.1:{free_port()}/db")
    assert "hunter2" not in str(caught.value)


def test_a_database_of_a_newer_release_is_misconfigured(ledgers: Ledgers, url: str) -> None:
    ledgers.database.write(
        lambda connection: connection.execute(
            sa.text("UPDATE alembic_version SET version_num = 'future'")
        )
    )
    with pytest.raises(Misconfigured, match="another release"):
        open_ledger(url)


def test_the_migrations_make_what_tables_py_says(ledgers: Ledgers) -> None:
    with ledgers.database.transaction() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


CATALOGUE = {
    "sqlite": ("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite%' ORDER BY name",),
    "postgresql": (
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
        """SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
           WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2""",
        """SELECT table_name, column_name, data_type, is_nullable, column_default
           FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2""",
    ),
}


def catalogue(database: LedgerDatabase) -> list[list[tuple[str, ...]]]:
    """All that a database says of its tables, white space aside."""

    def ask(connection: sa.Connection) -> list[list[tuple[str, ...]]]:
        return [
            [tuple(" ".join(str(each).split()) for each in row) for row in found]
            for found in map(connection.exec_driver_sql, CATALOGUE[connection.dialect.name])
        ]

    return database.read(ask)


def test_a_new_database_is_as_the_migrations_would_have_made_it(url: str) -> None:
    with closing(connect(url)) as database:
        migrate(database)
        made_at_once = catalogue(database)
        with database.transaction() as connection:
            metadata.drop_all(connection)
            connection.exec_driver_sql("DROP TABLE alembic_version")
        with database.transaction() as connection:
            upgrade(connection)

        assert catalogue(database) == made_at_once


def test_a_closed_sqlite_ledger_is_unavailable(sqlite_url: str) -> None:
    ledgers = open_ledger(sqlite_url)
    ledgers.close()
    with pytest.raises(LedgerUnavailable):
        ledgers.handled.claim("queue", "id", redelivered=False)


def test_sqlite_loses_nothing_when_the_power_fails(sqlite_url: str) -> None:
    ledgers = open_ledger(sqlite_url)
    pragmas = ("journal_mode", "synchronous")
    found = ledgers.database.read(
        lambda connection: [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in pragmas
        ]
    )
    ledgers.close()
    assert found == ["wal", 2]


def test_one_failing_write_takes_no_neighbour_with_it(ledgers: Ledgers) -> None:
    with pytest.raises(LedgerUnavailable):
        ledgers.database.write(lambda connection: connection.exec_driver_sql("SELECT nothing"))
    assert ledgers.handled.claim("queue", "id", redelivered=False).claim is Claim.GRANTED


def test_it_heals_after_the_server_crashed(postgres_server: Database, postgres_url: str) -> None:
    ledgers = open_ledger(postgres_url)
    ledgers.handled.done("queue", "id")
    postgres_server.crash()
    with pytest.raises(LedgerUnavailable):
        ledgers.handled.claim("queue", "id", redelivered=False)
    postgres_server.start()
    assert ledgers.handled.claim("queue", "id", redelivered=False).claim is Claim.DONE
    ledgers.close()


def test_after_a_failover_it_looks_for_the_primary_again(
    postgres_server: Database, postgres_url: str
) -> None:
    """Some keep connections to what was the primary: they answer, and take no write any more."""
    name = postgres_url.rpartition("/")[2]
    with closing(open_ledger(postgres_url)) as ledgers:
        _set(postgres_server, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        ledgers.database.close()  # the next connection is to a replica
        with pytest.raises(LedgerUnavailable, match="read-only"):
            ledgers.handled.done("queue", "id")
        (told,) = look_at_database(postgres_url)
        assert (told.level, "no write" in told.text) == (Level.RED, True)
        ledgers.handled.is_done("queue", "id")  # the next one has been made
        _set(postgres_server, f"ALTER DATABASE {name} RESET default_transaction_read_only")
        with pytest.raises(LedgerUnavailable, match="read-only"):
            ledgers.handled.done("queue", "id")
        ledgers.handled.done("queue", "id")


def test_a_stricter_default_of_isolation_is_not_ours(
    postgres_server: Database, postgres_url: str
) -> None:
    name = postgres_url.rpartition("/")[2]
    _set(
        postgres_server, f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"
    )
    show = sa.text("SHOW transaction_isolation")
    with closing(connect(postgres_url)) as database:
        assert database.read(lambda connection: connection.scalar(show)) == "read committed"


def _set(server: Database, statement: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(statement.encode())


@pytest.mark.parametrize(
    "change",
    [{"username": "nobody_knows"}, {"database": "no_such_database"}],
    ids=["user", "database"],
)
def test_a_server_that_refuses_us_is_a_persons_to_mend(
    postgres_url: str, change: dict[str, str]
) -> None:
    url = sa.make_url(postgres_url).set(password="hush")
    url = url.set(username=change.get("username", url.username))
    url = url.set(database=change.get("database", url.database))

    with pytest.raises(Misconfigured, match="refuses us") as caught:
        connect(url.render_as_string(hide_password=False))

    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(("query", "is_prepared"), [("", False), ("?prepare_threshold=1", True)])
def test_statements_are_prepared_for_who_asks_since_poolers_mix_them_up(
    postgres_url: str, query: str, *, is_prepared: bool
) -> None:
    prepared = sa.text("SELECT count(*) FROM pg_prepared_statements")
    with closing(connect(postgres_url + query)) as database:
        found = [database.read(lambda each: each.scalar(prepared)) for _ in range(20)]

    assert bool(found[-1]) is is_prepared


def test_every_statement_is_bounded_except_in_a_migration(postgres_url: str) -> None:
    show = sa.text("SHOW statement_timeout")
    with closing(connect(postgres_url)) as database:
        assert database.read(lambda connection: connection.scalar(show)) == "15s"
        with database.transaction() as connection:
            assert connection.scalar(show) == "0"
        assert database.read(lambda connection: connection.scalar(show)) == "15s"
