"""What reaches the log, and what does not."""

import subprocess
import sys

from tests.integration.processes import ROOT, clean_env


def test_a_failed_connect_is_told_by_us_alone() -> None:
    script = (
        "import logging; from gemhooks import logs; logs.configure('json');"
        "logging.getLogger('pika.adapters').error('noise');"
        "logging.getLogger('alembic').warning('news')"
    )
    said = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=clean_env(),
        capture_output=True,
        text=True,
        check=True,
    ).stderr

    assert "news" in said
    assert "noise" not in said
