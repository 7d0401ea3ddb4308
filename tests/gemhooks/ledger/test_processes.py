"""Several processes, some of which die."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from gemhooks.ledger import open_ledger
from gemhooks.ledger.tables import handled
from gemhooks.messages import Claim

ROOT = Path(__file__).parents[3]

OPEN = "import sys; from gemhooks.ledger import open_ledger; ledgers = open_ledger(sys.argv[1]); "
RACE = (
    OPEN + "print('ready', flush=True); sys.stdin.readline();"
    "print(ledgers.handled.claim('queue', 'id', redelivered=False).claim)"
)
WORK = """
import os, sys
from itertools import count
from concurrent.futures import ThreadPoolExecutor
from gemhooks.ledger import open_ledger
ledger = open_ledger(sys.argv[1]).handled
def work(number):
    key = f"{sys.argv[2]}-{number}"
    ledger.claim("queue", key, redelivered=False)
    ledger.done("queue", key)
    os.write(1, f"{key}\\n".encode())  # whole lines, also from several threads
with ThreadPoolExecutor(4) as pool:
    for start in count(step=4):
        list(pool.map(work, range(start, start + 4)))
"""


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_processes_that_start_at_once_migrate_once_and_one_gets_the_claim(url: str) -> None:
    processes = [python(RACE, url) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=60)[0].strip() for process in processes]
    assert sorted(answers) == ["busy"] * 3 + ["granted"]
    assert [process.returncode for process in processes] == [0] * 4


@pytest.mark.slow  # starts Python fifty times
@pytest.mark.timeout(1800)
def test_what_was_acknowledged_survives_sigkill_at_any_moment(sqlite_url: str) -> None:
    open_ledger(sqlite_url).close()
    seed = random.Random(6)
    acknowledged: list[str] = []
    for batch in range(10):  # five at once: starting Python is what takes the time
        runs = [python(WORK, sqlite_url, f"{batch}-{number}") for number in range(5)]
        for run in runs:
            acknowledged += _read_then_kill(run, seed.randrange(1, 40))
    assert len(acknowledged) >= 50
    assert set(acknowledged) <= _done_keys(sqlite_url)


def _read_then_kill(run: subprocess.Popen[str], lines: int) -> list[str]:
    assert run.stdout is not None
    with run:
        read = [run.stdout.readline() for _ in range(lines)]
        run.kill()
        # Not communicate(): it reads past the lines that readline() holds back, from mid-line.
        rest = run.stdout.readlines()
    return [line.strip() for line in read + rest if line.endswith("\n")]


def _done_keys(url: str) -> set[str]:
    ledgers = open_ledger(url)
    statement = sa.select(handled.c.key).where(handled.c.state == "done")
    keys = ledgers.database.read(lambda connection: set(connection.scalars(statement)))
    assert ledgers.handled.claim("queue", "after", redelivered=False).claim is Claim.GRANTED
    ledgers.close()
    return keys
