"""Our programs as real processes, as a user starts them."""

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
START_TIMEOUT = 60.0  # seconds; a busy machine with two cores


def clean_env(**more: str) -> dict[str, str]:
    """The environment without settings of ours, so that a developer's own don't leak in."""
    ours = ("GEMHOOKS_", "GEMINI_", "GOOGLE_")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**plain, "PYTHONPATH": str(ROOT), **more}


def command(
    *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m`` *arguments* to its end."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=clean_env(**(env or {})),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def script(code: str) -> subprocess.CompletedProcess[str]:
    """Run *code* in a Python of its own, to its end, which must be a good one."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=clean_env(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


@contextmanager
def process(
    *arguments: str, log: Path, env: Mapping[str, str], cwd: Path = ROOT
) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``python -m`` *arguments* beside the test; ended by its pid afterwards."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=cwd,
            env=clean_env(**env),
            stdout=output,
            stderr=output,
        )
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def answers(url: str) -> int:
    """The status at *url*, or 0 while nobody listens."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - loopback
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return 0


def is_ready(port: int) -> Callable[[], bool]:
    return lambda: answers(f"http://127.0.0.1:{port}/readyz") == 200
