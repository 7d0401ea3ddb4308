"""The Python of our pages runs and has the types it says."""

import subprocess
import sys
from pathlib import Path

import pytest

from gemhooks import Consumers
from tests.docs.pages import DOCS, Block, blocks
from tests.integration.processes import ROOT, clean_env

# Blocks that stand alone; the others are parts of something, and are parsed.
WHOLE = [DOCS / name for name in ("consumers.md", "testing.md", "polling.md", "quickstart.md")]
RUN = [each for each in blocks("python", pages=WHOLE) if each.title != "ask.py"]


@pytest.mark.parametrize("block", list(blocks("python")), ids=str)
def test_every_block_is_python(block: Block) -> None:
    compile(block.text, str(block), "exec", flags=0x2000)  # top-level await is fine


@pytest.mark.parametrize("block", RUN, ids=str)
def test_the_consumers_of_the_pages_are_accepted(block: Block) -> None:
    names: dict[str, object] = {"__name__": "snippet"}
    exec(compile(block.text, str(block), "exec"), names)  # noqa: S102 - a page of ours

    made = names.get("consumers")
    assert made is None or isinstance(made, Consumers)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The blocks as files, the testing page's as tests."""
    for number, block in enumerate(RUN):
        name = "test_page" if block.page.name == "testing.md" else "page"
        (tmp_path / f"{name}_{number}.py").write_text(block.text, "utf-8")
    return tmp_path


def test_the_tests_of_the_testing_page_pass(folder: Path) -> None:
    said = python("pytest", "-q", "-p", "gemhooks.testing.plugin", str(folder))

    assert "4 passed" in said


def test_the_types_of_the_pages_are_right(folder: Path) -> None:
    python("mypy", *sorted(str(each) for each in folder.glob("*.py")))


def python(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,  # where mypy has its settings and its cache
        env=clean_env(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTEST_ADDOPTS="-c /dev/null"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
