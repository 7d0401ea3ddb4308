"""``make chaos SECONDS=600 SEED=7``."""

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

import structlog

from tests.chaos import books
from tests.chaos.run import Plan, private_services, run

RATE = 34.0  # interactions a second: 20,000 in ten minutes


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--rate", type=float, default=RATE)
    given = parser.parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    folder = Path(tempfile.mkdtemp(prefix=f"gemhooks-chaos-{given.seed}-"))
    say(f"chaos: seed {given.seed}, {given.seconds:g} s; logs in {folder}")
    with private_services() as (node, server):
        report = run(Plan(given.seconds, given.seed, given.rate), node, server, folder)
    (folder / "books.json").write_text(books.as_json(report.books))
    say(", ".join(f"{name} {count}" for name, count in sorted(report.faults.items())))
    say(report.line)
    for complaint in report.complaints[:50]:
        say(f"WRONG: {complaint}")
    return 1 if report.complaints else 0


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
