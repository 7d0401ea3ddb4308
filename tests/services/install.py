"""Finding the programs of a service, and installing them where that can be done unasked."""

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.services.errors import MissingServiceError, ServiceError

POLICY = Path("/usr/sbin/policy-rc.d")
LOCK = Path(tempfile.gettempdir()) / "gemhooks-tests-install.lock"
_START_NOTHING = "#!/bin/sh\n# Written by gemhooks' tests: start no service.\nexit 101\n"


@dataclass(frozen=True)
class Program:
    """A service's server program: where it may be, and what brings it."""

    title: str
    package: str
    places: tuple[str, ...]  # patterns for the server program; the first that exists is taken
    instead: str  # the variables that name a running service to use instead


PROGRAMS = {
    "rabbitmq": Program(
        "RabbitMQ",
        "rabbitmq-server",
        # Not /usr/sbin/rabbitmq-server first: Debian's wrapper there changes HOME and the user.
        (
            "/usr/lib/rabbitmq/bin/rabbitmq-server",
            "/opt/homebrew/opt/rabbitmq/sbin/rabbitmq-server",
            "/usr/local/opt/rabbitmq/sbin/rabbitmq-server",
            "/opt/rabbitmq/sbin/rabbitmq-server",
        ),
        "GEMHOOKS_TEST_AMQP_URL and GEMHOOKS_TEST_MANAGEMENT_URL",
    ),
    "postgresql": Program(
        "PostgreSQL",
        "postgresql",
        (
            "/usr/lib/postgresql/*/bin/postgres",
            "/opt/homebrew/opt/postgresql*/bin/postgres",
            "/usr/local/opt/postgresql*/bin/postgres",
            "/usr/local/bin/postgres",
        ),
        "GEMHOOKS_TEST_DATABASE_URL",
    ),
    "prometheus": Program(
        "Prometheus",
        "prometheus",
        ("/usr/bin/prometheus", "/opt/homebrew/bin/prometheus", "/usr/local/bin/prometheus"),
        "nothing else: alerts and dashboards are tried on a real one",
    ),
    "alertmanager": Program(
        "Alertmanager",
        "prometheus-alertmanager",
        ("/usr/bin/amtool", "/opt/homebrew/bin/amtool", "/usr/local/bin/amtool"),
        "nothing else: its file is checked by its own tool",
    ),
    "amqp-tools": Program(
        "amqp-consume",
        "amqp-tools",
        ("/usr/bin/amqp-consume", "/opt/homebrew/bin/amqp-consume", "/usr/local/bin/amqp-consume"),
        "nothing else: an example is run with it",
    ),
    "wrk": Program(
        "wrk",
        "wrk",
        ("/usr/bin/wrk", "/opt/homebrew/bin/wrk", "/usr/local/bin/wrk"),
        "nothing else: only the benchmarks need it",
    ),
}


def ensure(name: str) -> Path:
    """Return the folder with the programs of a service, installed first if need be."""
    program = PROGRAMS[name]
    if (found := find(program)) is None and _may_install():
        with one_at_a_time():
            found = find(program) or _install(program)
    if found is None:
        raise MissingServiceError(
            f"{program.title} is not installed, and the tests run on a real one: install "
            f"{program.package} (Debian: apt-get install {program.package}; macOS: brew install "
            f"{program.package.removesuffix('-server')}) or set {program.instead}."
        )
    return found


def find(program: Program) -> Path | None:
    """Return the folder of the newest installed server program, if there is one."""
    for place in program.places:
        if found := sorted(Path("/").glob(place.lstrip("/")), key=_version):
            return found[-1].parent
    return None


def _version(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(path))]


def _may_install() -> bool:
    """Only as root, only with apt-get, and not against the caller's will."""
    allowed = os.environ.get("GEMHOOKS_TEST_INSTALL", "1") != "0"
    return allowed and os.geteuid() == 0 and shutil.which("apt-get") is not None


def _install(program: Program) -> Path | None:
    sys.stderr.write(f"Installing {program.package} with apt-get, without starting it ...\n")
    with no_service_starts():
        try:
            _apt("install", "--no-install-recommends", program.package)
        except ServiceError:
            _apt("update")  # no package lists yet, or old ones
            _apt("install", "--no-install-recommends", program.package)
    return find(program)


@contextlib.contextmanager
def one_at_a_time(lock: Path = LOCK) -> Iterator[None]:
    """Wait for the other processes of this run: all see what is missing, one installs it."""
    with lock.open("w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _apt(*arguments: str) -> None:
    # Another apt-get at work is waited for.
    command = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300", *arguments]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise ServiceError(f"{' '.join(command)} failed: {done.stderr.strip()}")


@contextlib.contextmanager
def no_service_starts(policy: Path = POLICY) -> Iterator[None]:
    """Keep packages from starting their services: the machine's own ports stay as they are."""
    before = (policy.read_bytes(), policy.stat().st_mode) if policy.exists() else None
    policy.write_text(_START_NOTHING, encoding="utf-8")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()
        if before is not None:
            policy.write_bytes(before[0])
            policy.chmod(before[1])
