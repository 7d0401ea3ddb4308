"""An idle worker: what it has not loaded takes no memory and no time at its start."""

import re
from pathlib import Path

import pytest

from tests.integration.processes import is_ready, process
from tests.services.ports import free_port
from tests.services.waiting import eventually

# 130 MiB were resident with all of it, 65 without.
NEVER = (
    *("google.genai", "httpx", "aiohttp", "requests", "fsspec", "alembic", "rich.console"),
    *("opentelemetry", "jsonschema", "flask", "pebble", "multiprocessing", "jwt", "cryptography"),
    *("gemhooks.simulator", "gemhooks.testing", "gemhooks.doctor", "workers.reconcile"),
    *("urllib3", "gemhooks.conversations", "gemhooks.gemini.webhooks"),
)
WORKERS, CONSUMER = ("workers",), ("gemhooks", "consume", "handlers:slow")
SQLITE, POSTGRESQL = "sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql"
HERE = Path(__file__).parent


def imported(program: tuple[str, ...], env: dict[str, str], folder: Path) -> set[str]:
    """All modules that *program* has imported from its start until it is ready, and to its end."""
    port, log = free_port(), folder / "log"
    with process(*program, log=log, env={**given(port, folder), **env}, cwd=HERE) as worker:
        eventually(is_ready(port), why=f"it is ready: {log}")
        worker.terminate()
        assert worker.wait(60) == 0
    return told_by(log)


def given(port: int, folder: Path) -> dict[str, str]:
    return {
        "GEMHOOKS_ADMIN_PORT": str(port),
        "GEMHOOKS_RESULTS_URL": str(folder / "results"),
        "GEMINI_API_KEY": "not-a-real-key",
        "NOTES": str(folder / "notes"),
        "PYTHONPROFILEIMPORTTIME": "1",
    }


def told_by(log: Path) -> set[str]:
    return set(re.findall(r"^import time:.*\| +(\S+)$", log.read_text(), re.MULTILINE))


def below(names: tuple[str, ...], modules: set[str]) -> list[str]:
    return sorted(
        each
        for each in modules
        if any(each == name or each.startswith(f"{name}.") for name in names)
    )


@pytest.mark.parametrize("program", [WORKERS, CONSUMER], ids=["workers", "consume"])
def test_an_idle_worker_on_sqlite_has_loaded_nothing_that_it_has_not_needed(
    amqp_url: str, program: tuple[str, ...], tmp_path: Path
) -> None:
    env = {"GEMHOOKS_BROKER_URL": amqp_url}
    url = {"GEMHOOKS_DATABASE_URL": f"sqlite:///{tmp_path}/ledger.db"}

    modules = imported(program, env | url, tmp_path)

    assert "gemhooks.service" in modules
    assert below((*NEVER, POSTGRESQL, "psycopg"), modules) == []


@pytest.mark.parametrize("program", [WORKERS, CONSUMER], ids=["workers", "consume"])
def test_an_idle_worker_on_postgresql_has_loaded_nothing_that_it_has_not_needed(
    amqp_url: str, postgres_url: str, program: tuple[str, ...], tmp_path: Path
) -> None:
    env = {"GEMHOOKS_BROKER_URL": amqp_url}

    modules = imported(program, env | {"GEMHOOKS_DATABASE_URL": postgres_url}, tmp_path)

    assert "gemhooks.service" in modules
    assert below((*NEVER, SQLITE, "sqlite3"), modules) == []


def test_a_worker_that_is_told_to_loads_googles_client_before_its_first_event(
    tmp_path: Path,
) -> None:
    log, port = tmp_path / "log", free_port()
    urls = {
        "GEMHOOKS_BROKER_URL": f"sqlite:///{tmp_path}/queue.db",
        "GEMHOOKS_DATABASE_URL": f"sqlite:///{tmp_path}/ledger.db",
        "GEMHOOKS_PRELOAD": "1",
    }
    with process("workers", log=log, env={**given(port, tmp_path), **urls}, cwd=HERE):
        eventually(lambda: "google.genai.client" in told_by(log), why=f"it is loaded: {log}")


def test_a_command_does_not_import_the_others(tmp_path: Path) -> None:
    log, env = tmp_path / "log", {"PYTHONPROFILEIMPORTTIME": "1"}
    with process("gemhooks", "demo", "--help", log=log, env=env) as asked:
        assert asked.wait(60) == 0
    modules = told_by(log)

    assert "gemhooks.cli.children" in modules
    assert below(("gemhooks.cli.dlq", "gemhooks.gemini"), modules) == []
