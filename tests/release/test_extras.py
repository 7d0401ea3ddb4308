"""Without its extras gemhooks does what needs none of them."""

import subprocess
import sys

import pytest

from tests.integration.processes import ROOT, clean_env

EXTRAS = ("google", "flask", "httptools", "uvloop", "psycopg", "yaml", "opentelemetry")
BLOCK = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
"""


@pytest.mark.parametrize(
    "does",
    [
        "from gemhooks.cli import app; app(['consume', '--help'], standalone_mode=False)",
        "import gemhooks.service, gemhooks.jobs, gemhooks.testing, gemhooks.doctor",
    ],
)
def test_the_base_alone_is_enough(does: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCK + does],
        cwd=ROOT,
        env=clean_env(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
