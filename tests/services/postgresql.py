"""PostgreSQL for tests: a private server of the installed program, or one that is given."""

import contextlib
import secrets
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, Self
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from tests.services.errors import NotOursError, ServiceError
from tests.services.home import Home
from tests.services.install import ensure
from tests.services.ports import free_port
from tests.services.waiting import wait_until


class Database:
    """A PostgreSQL that runs somewhere, and fresh databases on it."""

    def __init__(self, url: str) -> None:
        """Take the URL of a database from which others may be created."""
        self.url = url

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """Create a database, yield its URL, and drop it whoever is still connected."""
        name = f"test_{secrets.token_hex(6)}"
        self._execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))
        finally:
            self._execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def start(self) -> None:
        """Do nothing: it runs already."""

    def stop(self) -> None:
        """Refuse: it is not ours."""
        self._refuse("stop")

    def crash(self) -> None:
        """Refuse: it is not ours."""
        self._refuse("crash")

    def restart(self) -> None:
        """Refuse: it is not ours."""
        self._refuse("restart")

    def _execute(self, statement: sql.Composed | sql.SQL) -> None:
        # Of its own and closed at once: PostgreSQL copies no database that has connections.
        with psycopg.connect(self.url, autocommit=True, connect_timeout=10) as connection:
            connection.execute(statement)

    def _refuse(self, what: str) -> NoReturn:
        raise NotOursError(
            f"{what}: the PostgreSQL of GEMHOOKS_TEST_DATABASE_URL is not ours; "
            "unset it for this test."
        )


class PostgresServer(Database):
    """A server of our own: a free loopback port, trusted logins, all in one folder.

    `with PostgresServer() as server:` starts it and leaves nothing behind. In between, `crash()`
    and `stop()` are outages; `start()` ends either, on the data that was there before.
    """

    def __init__(self) -> None:
        """Choose the port; nothing is started yet."""
        self.port = free_port()
        self.home: Home | None = None
        self._programs = Path()
        self._server: subprocess.Popen[bytes] | None = None
        self._crashed = False
        super().__init__(f"postgresql://hooks@127.0.0.1:{self.port}/postgres")

    def __enter__(self) -> Self:
        """Start the server."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the server and remove its folder."""
        self.close()

    @property
    def running(self) -> bool:
        """Whether the server's process runs."""
        return self._server is not None and self._server.poll() is None

    def start(self) -> None:
        """Start the server, on its old data if it has any, and wait until it takes connections."""
        if self.running:
            return
        try:
            home = self.home = self.home or self._move_in()
            self._server = home.launch(self._command(home.folder / "data"))
            wait_until(self._is_up, "start of PostgreSQL", seconds=60)
        except BaseException:
            self._abandon()  # a fixture that fails in its first half is never asked for its second
            raise
        self._crashed = False

    def stop(self) -> None:
        """Stop the server in order; its data stays."""
        self._end(signal.SIGINT)  # PostgreSQL's "fast": does not wait for clients to leave

    def crash(self) -> None:
        """Crash the server with SIGKILL; its data stays as the crash left it."""
        self._crashed = self.running
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop the server in order and start it again."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End the server and remove the folder."""
        if self._crashed:
            self.start()  # releases the shared memory that the crash left
        self.stop()
        self._abandon()

    def _abandon(self) -> None:
        if self.home is not None:
            self.home.remove()
        if self._server is not None:
            self._server.wait(30)
        self.home = self._server = None
        self._crashed = False

    def _move_in(self) -> Home:
        """Make the folder, with an empty cluster of databases in it."""
        self._programs = ensure("postgresql")
        home = Home.make("postgresql", user="postgres")
        options = ["--auth=trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        try:
            home.run([self._programs / "initdb", "-U", "hooks", *options, home.folder / "data"])
        except BaseException:
            home.remove()
            raise
        return home

    def _command(self, data: Path) -> list[str | Path]:
        """In the foreground, so that its process is our child; without a socket file; no fsync."""
        settings = [
            "listen_addresses=127.0.0.1",
            f"port={self.port}",
            "unix_socket_directories=",
            "fsync=off",  # a crash of the process loses nothing; only one of the machine would
        ]
        options = [part for setting in settings for part in ("-c", setting)]
        return [self._programs / "postgres", "-D", data, *options]

    def _is_up(self) -> bool:
        if not self.running:
            console = self.home.console() if self.home else ""
            raise ServiceError(f"PostgreSQL did not start:\n{console}")
        try:
            self._execute(sql.SQL("SELECT 1"))
        except psycopg.OperationalError:
            return False
        return True

    def _end(self, how: signal.Signals) -> None:
        if self._server is None or self.home is None or not self.running:
            return
        self._server.send_signal(how)
        self._server.wait(30)
        # After a crash its children notice by themselves; until then no new server may start.
        self.home.wait_empty()
