"""RabbitMQ for tests: a private node of the installed program, or one that is given."""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, Self
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import urllib3

from tests.services import debian
from tests.services.errors import NotOursError, ServiceError
from tests.services.home import Home
from tests.services.install import ensure
from tests.services.ports import free_port
from tests.services.probe import carries_messages
from tests.services.waiting import wait_until

SUITE = "GEMHOOKS_TEST_RABBITMQ_FROM"  # a Debian suite: trixie has RabbitMQ 4.0
WATERMARK = "0.4"  # RabbitMQ's own


class Broker:
    """A RabbitMQ that runs somewhere: its addresses, its HTTP API, and fresh vhosts on it."""

    amqp_url: str
    management_url: str

    def __init__(self, amqp_url: str, management_url: str) -> None:
        """Take the addresses; the management API is asked with the credentials of the AMQP URL."""
        self.amqp_url = amqp_url
        self.management_url = management_url.rstrip("/")

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Ask the management API, for example `api("GET", "/api/overview")`."""
        headers = urllib3.make_headers(basic_auth=":".join(self._credentials()))
        with urllib3.PoolManager() as pool:
            answer = pool.request(
                method, self.management_url + path, headers=headers, json=body, retries=False
            )
        if answer.status >= 400:
            raise ServiceError(f"{method} {path}: {answer.status} {answer.data.decode()}")
        return answer.json() if answer.data else None

    @contextlib.contextmanager
    def vhost(self, name: str | None = None) -> Iterator[str]:
        """Make a vhost, yield its AMQP URL, and delete it with all that is in it."""
        name = name or f"test-{secrets.token_hex(6)}"
        path, rights = quote(name, safe=""), {"configure": ".*", "write": ".*", "read": ".*"}
        self.api("PUT", f"/api/vhosts/{path}", {})
        try:
            user = quote(self._credentials()[0], safe="")
            self.api("PUT", f"/api/permissions/{path}/{user}", rights)
            url = urlunsplit(urlsplit(self.amqp_url)._replace(path=f"/{path}"))
            # 3.10 lets one in while the vhost still starts; queues declared then may never work.
            wait_until(lambda: carries_messages(url), f"the vhost {name} carries messages")
            yield url
        finally:
            self.api("DELETE", f"/api/vhosts/{path}")

    def start(self) -> None:
        """Do nothing: it runs already."""

    def stop(self) -> None:
        """Refuse: it is not ours."""
        self._refuse("stop")

    def kill(self, *, settled: bool = True) -> None:
        """Refuse: it is not ours."""
        self._refuse("kill")

    def restart(self) -> None:
        """Refuse: it is not ours."""
        self._refuse("restart")

    def ctl(self, *arguments: str) -> str:
        """Refuse: it is not ours."""
        self._refuse(f"rabbitmqctl {' '.join(arguments)}")

    @contextlib.contextmanager
    def without_memory(self) -> Iterator[None]:
        """Let the broker take no messages meanwhile, from when its alarm is raised."""
        self.ctl("set_vm_memory_high_watermark", "0.00001")
        try:
            wait_until(self._is_alarmed, "the alarm of the broker's memory")
            yield
        finally:
            self.ctl("set_vm_memory_high_watermark", WATERMARK)

    def _is_alarmed(self) -> bool:
        try:
            self.api("GET", "/api/health/checks/alarms")
        except ServiceError:
            return True
        return False

    def _credentials(self) -> tuple[str, str]:
        url = urlsplit(self.amqp_url)
        return unquote(url.username or "guest"), unquote(url.password or "guest")

    def _refuse(self, what: str) -> NoReturn:
        raise NotOursError(
            f"{what}: the RabbitMQ of GEMHOOKS_TEST_AMQP_URL is not ours; unset it for this test."
        )


def programs() -> tuple[Path, Path | None]:
    """Where RabbitMQ's programs are, and in which other system, where one was asked for."""
    suite = os.environ.get(SUITE, "")
    if not suite:
        return ensure("rabbitmq"), None
    return Path("/usr/lib/rabbitmq/bin"), debian.ensure(suite, "rabbitmq-server")


class RabbitNode(Broker):
    """A node of our own: free loopback ports, own name, cookie and epmd, all in one folder.

    `with RabbitNode() as node:` starts it and leaves nothing behind. In between, `kill()` is a
    crash, `stop()` an outage; `start()` ends either, on the data that was there before.
    """

    def __init__(self, *, join: "RabbitNode | None" = None) -> None:
        """Choose name and ports; nothing is started yet. It may *join* one that runs."""
        self.name = f"gemhooks-{secrets.token_hex(4)}@localhost"
        self.amqp_port, self.management_port = free_port(), free_port()
        self.cluster_port = free_port()
        self.first = join or self
        self.epmd_port: int = join.epmd_port if join else free_port()
        self.cookie: str = join.cookie if join else secrets.token_hex(16)
        self.home: Home | None = None
        self._programs = Path()
        self._epmd: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None
        super().__init__(
            f"amqp://guest:guest@127.0.0.1:{self.amqp_port}/%2F",
            f"http://127.0.0.1:{self.management_port}",
        )

    def __enter__(self) -> Self:
        """Start the node."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the node and remove its folder."""
        self.close()

    @property
    def running(self) -> bool:
        """Whether the node's process runs."""
        return self._server is not None and self._server.poll() is None

    def start(self) -> None:
        """Start the node, on its old data if it has any, and wait until it takes connections."""
        if self.running:
            return
        try:
            home = self.home = self.home or self._move_in()
            self._start_epmd(home)
            self._server = home.launch([self._programs / "rabbitmq-server"])
            wait_until(self._is_up, f"start of {self.name}", seconds=180)
        except BaseException:
            self.close()  # a fixture that fails in its first half is never asked for its second
            raise

    def stop(self) -> None:
        """Stop the node in order; its data stays."""
        self._end(signal.SIGTERM)

    def kill(self, *, settled: bool = True) -> None:
        """Crash the node with SIGKILL; its data stays as the crash left it.

        Killed within a second of a quorum queue's first election, a lone RabbitMQ 3.10 forgets it
        voted, and the queue never has a leader again. `settled` writes such tables (0.5 s) before
        the kill; without it, the kill is at once.
        """
        if settled and self.running:
            self.ctl("eval", "[dets:sync(Table) || Table <- dets:all()].")
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop the node in order and start it again."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End node and epmd, and remove the folder."""
        if self.home is None:
            return
        if self.running and self._pid():
            self.kill(
                settled=False
            )  # the data goes with the folder: an orderly stop would only take longer
        self.home.remove()
        for process in (self._server, self._epmd):
            if process is not None:
                process.wait(30)
        self.home = self._server = self._epmd = None

    def ctl(self, *arguments: str) -> str:
        """Run rabbitmqctl on the node and return what it printed."""
        home = self._at_home()
        command: list[str | Path] = [
            self._programs / "rabbitmqctl",
            "-q",
            "-n",
            self.name,
            *arguments,
        ]
        try:
            return home.run(command, seconds=60)
        except subprocess.TimeoutExpired:
            raise ServiceError(f"rabbitmqctl {' '.join(arguments)} did not end") from None

    def _at_home(self) -> Home:
        if self.home is None:
            raise ServiceError(f"{self.name} was not started")
        return self.home

    def _move_in(self) -> Home:
        """Make the folder with everything the node reads."""
        self._programs, root = programs()
        home = Home.make("rabbitmq", user="rabbitmq", root=root)
        home.write(".erlang.cookie", self.cookie, mode=0o400)
        home.write("plugins", "[rabbitmq_management].")
        home.write("rabbitmq.conf", self._configuration())
        home.environment = self._environment(home.folder)
        return home

    def _configuration(self) -> str:
        return f"""
            listeners.tcp.1 = 127.0.0.1:{self.amqp_port}
            management.tcp.ip = 127.0.0.1
            management.tcp.port = {self.management_port}
            log.console = true
            # The API's numbers are at most a second old, so tests that read them wait less.
            collect_statistics_interval = 1000
            {self._membership()}
        """

    def _membership(self) -> str:
        """The first starts alone: of several at once, each would wait for another to be first."""
        if self.first is self:
            return ""
        return f"""
            cluster_partition_handling = pause_minority
            cluster_formation.peer_discovery_backend = classic_config
            cluster_formation.classic_config.nodes.1 = {self.first.name}
            cluster_formation.classic_config.nodes.2 = {self.name}
        """

    def _environment(self, folder: Path) -> dict[str, str]:
        """Name every file the node would otherwise look for in the machine's own places."""
        loopback = "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}"
        return {
            "ERL_EPMD_PORT": str(self.epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            # For rabbitmqctl, too. An epmd that Erlang starts is a daemon that outlives the node.
            "ERL_FLAGS": loopback,
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_DIST_PORT": str(self.cluster_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONFIG_FILES": str(folder / "conf.d"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "rabbitmq-env.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
        }

    def _start_epmd(self, home: Home) -> None:
        """Start the node's own name server; it stays while the node crashes and comes back."""
        if self.first is not self:
            return
        if self._epmd is not None and self._epmd.poll() is None:
            return
        port = str(self.epmd_port)
        self._epmd = home.launch(["epmd", "-port", port, "-address", "127.0.0.1"])
        wait_until(lambda: _listens(self.epmd_port), "start of epmd")

    def _is_up(self) -> bool:
        if not self.running:
            raise ServiceError(f"{self.name} did not start:\n{self._at_home().console()}")
        try:
            self.api("GET", f"/api/health/checks/port-listener/{self.amqp_port}")
        except (ServiceError, urllib3.exceptions.HTTPError):
            return False
        return self._pid() is not None

    def _pid(self) -> int | None:
        """Return the id that the node itself wrote: the process we started is only its shell."""
        try:
            return int((self._at_home().folder / "pid").read_text("ascii"))
        except (FileNotFoundError, ValueError):
            return None

    def _end(self, how: signal.Signals) -> None:
        server, pid = self._server, self._pid()
        if server is None or pid is None or not self.running:
            return
        os.kill(pid, how)
        server.wait(60)
        (self._at_home().folder / "pid").unlink(missing_ok=True)  # a crash leaves it behind
        wait_until(lambda: not _listens(self.amqp_port), f"end of {self.name}")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
