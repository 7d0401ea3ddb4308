"""The reconciler as a process: a bad Gemini, a silent one, and what it writes about them."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gemhooks.ledger import Ledgers, open_ledger
from tests.gemhooks.gemini.scripted import ScriptedServer, serving
from tests.integration.processes import is_ready, process
from tests.services.ports import free_port
from tests.services.waiting import eventually

KEY = "AIza-not-a-real-key-0123456789"
NO_INTERACTION = ["null", "[]", '""', "{}", '{"id": "other"}', '{"id": null}', "{", "<html>"]
COMPLETED = json.dumps({"id": "v1_x", "status": "completed", "steps": [None]}).encode()


@pytest.fixture
def gemini() -> Iterator[ScriptedServer]:
    yield from serving("127.0.0.1")


@pytest.fixture
def settings(gemini: ScriptedServer, tmp_path: Path) -> dict[str, str]:
    return {
        "GEMHOOKS_BROKER_URL": f"sqlite:///{tmp_path}/queue.db",
        "GEMHOOKS_DATABASE_URL": f"sqlite:///{tmp_path}/ledger.db",
        "GEMHOOKS_GEMINI_BASE_URL": gemini.url,
        "GEMHOOKS_ADMIN_PORT": str(free_port()),
        "GEMHOOKS_RECONCILE_EVERY": "0.05s",
        "GEMHOOKS_RECONCILE_RATE": "1000",
        "GEMHOOKS_EXPECT_INTERACTION": "0s",
        "GEMHOOKS_LIST_BATCHES_EVERY": "1h",
        "GEMHOOKS_LOG_LEVEL": "debug",
        "GEMINI_API_KEY": KEY,
    }


@pytest.fixture
def ledgers(tmp_path: Path) -> Iterator[Ledgers]:
    with closing(open_ledger(f"sqlite:///{tmp_path}/ledger.db")) as ledgers:
        ledgers.jobs.record("interaction", "v1_x", "started", ours=True)
        yield ledgers


def reported(ledgers: Ledgers) -> str | None:
    """What was told of the job, which is due at once, however old it gets."""
    job = ledgers.jobs.get("interaction", "v1_x")
    assert job is not None
    ledgers.lookups.again(job, after=0.0)
    return job.reported


def test_whatever_gemini_answers_it_goes_on_and_tells_no_secret(
    gemini: ScriptedServer, settings: dict[str, str], ledgers: Ledgers, tmp_path: Path
) -> None:
    gemini.answer(403, b'{"error":{"message":"' + KEY.encode() + b'"}}')
    for body in NO_INTERACTION:
        gemini.answer(200, body.encode())
    gemini.answer(500, KEY.encode())
    gemini.answer(404, b"{}")
    gemini.answer(302, b"", Location=f"http://127.0.0.1:1/?key={KEY}")
    gemini.answer(400, b'{"error":{"message":"' + KEY.encode() + b'"}}')
    gemini.answer(429, b"{}", Retry_After="0")
    gemini.answer(200, COMPLETED)
    log = tmp_path / "log"
    with process("workers", "reconcile", log=log, env=settings) as reconciler:
        eventually(lambda: reported(ledgers) == "interaction.completed", why=f"told: see {log}")
        reconciler.terminate()
        code = reconciler.wait(60)

    said = log.read_text()
    assert code == 0
    assert "event_missed" in said
    assert KEY not in said
    assert "Traceback" not in said


@pytest.mark.parametrize("hangs_at", ["the list", "a job"])
def test_a_gemini_that_never_answers_does_not_keep_it_from_ending(
    gemini: ScriptedServer,
    settings: dict[str, str],
    ledgers: Ledgers,
    tmp_path: Path,
    hangs_at: str,
) -> None:
    if hangs_at == "a job":
        gemini.answer(200, b"{}")
    gemini.answer(0, b"")
    env = {**settings, "GEMHOOKS_GRACE": "0.2s", "GEMHOOKS_GEMINI_TIMEOUT": "300s"}
    with process("workers", "reconcile", log=tmp_path / "log", env=env) as reconciler:
        eventually(is_ready(int(settings["GEMHOOKS_ADMIN_PORT"])), why="it is ready")
        # Others of the process ask, too: which answer hangs whom does not matter.
        eventually(lambda: len(gemini.seen) > (hangs_at == "a job"), why="somebody hangs")
        reconciler.terminate()

        assert reconciler.wait(60) == 0
    assert reported(ledgers) is None
