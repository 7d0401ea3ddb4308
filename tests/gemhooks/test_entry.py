"""How a program ends."""

import io
import os
import subprocess
import sys
import textwrap
from pathlib import Path

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
