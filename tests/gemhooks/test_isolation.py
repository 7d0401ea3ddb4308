"""What a function does to its process, it does to itself and to no other."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gemhooks.errors import Misconfigured
from gemhooks.functions import Call, CallContext, Functions, Outcome, Result
from gemhooks.functions.loading import load_functions
from tests.gemhooks import isolated
from tests.services.waiting import eventually

CONTEXT = CallContext("v1_i", "c1")


@pytest.fixture(scope="module", autouse=True)
def _processes() -> Iterator[None]:
    yield
    isolated.functions.close()


def run(name: str, **arguments: Any) -> Result:
    return isolated.functions.run(Call("c1", name, arguments), context=CONTEXT)


def test_it_runs_in_a_process_that_is_kept_for_the_next_call() -> None:
    first, second = run("who"), run("who")

    assert first.result == {"key": "v1_i/c1", "parent": os.getpid(), "pid": first.result["pid"]}
    assert first.result["pid"] != os.getpid()
    assert second.outcome is Outcome.OK


def test_coroutines_and_errors_are_as_in_a_thread() -> None:
    assert run("later", word="x").result == "later x"
    assert (run("fail").outcome, run("fail").result) == ("failed", "RuntimeError: out of order")
    assert run("later").outcome is Outcome.BAD_ARGUMENTS


def test_one_that_hangs_is_killed_at_its_deadline(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    run("who")

    result = run("hang", note=str(note))

    assert result.outcome is Outcome.TIMEOUT
    assert isolated.functions.abandoned == 0
    assert ends(int(note.read_text()))


def test_one_that_ends_its_interpreter_fails_its_own_call_only() -> None:
    with ThreadPoolExecutor(2) as pool:
        dying, living = pool.submit(run, "die"), pool.submit(run, "who")

    assert dying.result().outcome is Outcome.FAILED
    assert "exit code 7" in dying.result().result
    assert living.result().outcome is Outcome.OK


def test_one_that_eats_memory_fails_its_own_call_only() -> None:
    assert run("eat").result.startswith("MemoryError")
    assert run("who").outcome is Outcome.OK


def test_a_call_waits_for_a_process_before_its_time_runs() -> None:
    rooms = [isolated.functions.room_for(Call("c", "who")) for _ in range(4)]
    with ThreadPoolExecutor(1) as pool:
        for each in rooms:
            each.__enter__()
        waiting = pool.submit(isolated.functions.room_for(Call("c", "who")).__enter__)
        assert not waiting.done()
        rooms[0].__exit__(None, None, None)
        waiting.result(60)
    for each in rooms:
        each.__exit__(None, None, None)


def test_what_another_process_cannot_find_is_refused_at_once() -> None:
    functions = Functions()

    with pytest.raises(ValueError, match="only functions of a module"):
        functions.function(isolation="process", name="nothing")(lambda: None)
    with pytest.raises(ValueError, match="thread or process"):
        functions.function(isolation="pod")(test_coroutines_and_errors_are_as_in_a_thread)  # type: ignore[arg-type]


def test_one_that_its_module_hides_is_refused_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    load_functions("tests.gemhooks.isolated")
    monkeypatch.setitem(vars(isolated), "_renamed", SimpleNamespace())

    with pytest.raises(Misconfigured, match="lost: isolation='process' needs"):
        load_functions("tests.gemhooks.isolated")


ORPHAN = """
from gemhooks.functions import Call, CallContext
from tests.gemhooks.isolated import functions
import sys
if __name__ == "__main__":
    functions.run(Call("c", "hang", {"note": sys.argv[1]}), context=CallContext("i", "c"))
"""


def test_one_whose_worker_was_killed_ends_by_itself(tmp_path: Path) -> None:
    note, script = tmp_path / "pid", tmp_path / "worker.py"
    script.write_text(ORPHAN)
    root = str(Path(__file__).parents[2])
    worker = subprocess.Popen(
        [sys.executable, str(script), str(note)], env={**os.environ, "PYTHONPATH": root}
    )
    eventually(lambda: note.exists() and note.read_text())

    worker.kill()
    worker.wait()

    assert ends(int(note.read_text()))


def ends(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(OSError):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z":
                time.sleep(0.05)
                continue
        return True
    return False
