"""How a program ends."""

import io
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from gemhooks import entry, logs
from gemhooks.errors import Misconfigured, Unavailable


@pytest.mark.parametrize(("error", "code"), [(Misconfigured, 2), (Unavailable, 1)])
def test_its_sentence_comes_after_the_lines_that_waited(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: type[Exception],
    code: int,
) -> None:
    monkeypatch.setattr(logs, "flush", lambda: sys.stderr.write("lines\n"))

    def program() -> int:
        raise error("It is broken.")

    with pytest.raises(SystemExit) as ended:
        entry.run(program)

    assert ended.value.code == code
    assert capsys.readouterr().err == "lines\ngemhooks: It is broken.\n"


def test_what_a_terminal_cannot_show_is_shown_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))

    def program() -> int:
        sys.stdout.write("id: \U0001f600 \ud800\n")
        sys.stdout.flush()
        return 0

    with pytest.raises(SystemExit) as ended:
        entry.run(program)

    assert ended.value.code == 0
    assert written.getvalue() == b"id: \\U0001f600 \\ud800\n"


@pytest.mark.parametrize("first", ["entry", "metrics"])
@pytest.mark.parametrize("name", ["PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir"])
def test_metrics_are_counted_in_memory_whatever_an_image_has_set(
    tmp_path: Path, name: str, first: str
) -> None:
    """A folder that is missing ended the program, and one that is shared mixed up the counts."""
    program = f"""
        from gemhooks import {first}, entry

        def count():
            from prometheus_client import CollectorRegistry, Counter

            Counter("x", "x", registry=CollectorRegistry()).inc()

        entry.run(count)
    """
    env = {**os.environ, name: str(tmp_path / "missing")}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_full_disk_where_the_answer_is_to_go_is_one_sentence(size: int) -> None:
    code = f"""
        from gemhooks import entry
        entry.run(lambda: print("x" * {size}, flush=True))
    """
    with Path("/dev/full").open("w") as full:
        ended = python(code, stdout=full)
    assert (ended.returncode, ended.stderr) == (1, "gemhooks: No space left on device.\n")


def test_ctrl_c_while_the_command_is_still_loaded_is_no_traceback() -> None:
    code = """
        import importlib.abc, os, signal, sys

        class Interrupting(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name == "typer":
                    os.kill(os.getpid(), signal.SIGINT)

        sys.meta_path.insert(0, Interrupting())
        from gemhooks.__main__ import main
        main()
    """
    ended = python(code, stdout=subprocess.PIPE)
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")


def python(code: str, *, stdout: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


def close(*numbers: int) -> None:
    for each in numbers:
        os.close(each)


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_a_stream_that_was_closed_is_no_socket_s_number(closed: tuple[int, ...]) -> None:
    """Its number went to the first socket or file: what was written to the stream went there."""
    program = """
        import os, socket, sys
        from gemhooks import entry

        def look():
            plug = socket.socket()
            print("for nobody, or for the test")
            print("likewise", file=sys.stderr)
            return 0 if plug.fileno() > 2 and sys.stdin.read() == "" else 3

        entry.run(look)
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: close(*closed),
        env={**os.environ, "PYTHONPATH": "."},
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0
