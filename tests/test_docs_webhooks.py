"""Every command of docs/webhooks.md is run as it is written, only on other ports."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gemhooks.cli import app
from tests.integration.processes import ROOT, answers, process
from tests.services.ports import free_port
from tests.services.waiting import eventually

PAGE = ROOT / "docs" / "webhooks.md"
BLOCK = re.compile(r'^```(sh|toml)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    title: str
    text: str

    def commands(self) -> Iterator[list[str]]:
        for line in self.text.splitlines():
            yield shlex.split(os.path.expandvars(line), comments=True)


def blocks(ports: dict[str, int]) -> Iterator[Block]:
    for language, title, text in BLOCK.findall(PAGE.read_text()):
        # All at once: a port may have the digits of another.
        ours = re.sub("|".join(ports), lambda documented: str(ports[documented[0]]), text)
        yield Block(language, title, ours)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the reader's own, with ``gemhooks`` on the path as after an installation."""
    program = tmp_path / "bin" / "gemhooks"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m gemhooks "$@"\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_works_from_top_to_bottom(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ports = {"8787": free_port(), "8080": free_port()}
    admin = free_port()
    monkeypatch.setenv("GEMHOOKS_PORT", str(ports["8080"]))
    monkeypatch.setenv("GEMHOOKS_ADMIN_PORT", str(admin))
    with ExitStack() as stack:
        for block in blocks(ports):
            if block.language == "toml":
                (here / block.title).write_text(block.text)
            elif block.title.startswith("terminal"):
                (command,) = block.commands()
                env = {name: value for name, value in os.environ.items() if "GEM" in name}
                stack.enter_context(process(*command, log=here / "log", env=env, cwd=here))
                port = ports["8787"] if "simulate" in command else admin
                eventually(is_live(port), why=block.text)
            else:
                for command in block.commands():
                    do(command, block, monkeypatch)


def is_live(port: int) -> Callable[[], bool]:
    return lambda: answers(f"http://127.0.0.1:{port}/livez") == 200


def do(command: list[str], block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one line as a shell would; the program itself in this process, for speed."""
    if command[0] == "export":
        monkeypatch.setenv(*command[1].split("=", 1))
    elif command[0].startswith("ID="):
        line = block.text.splitlines()[0]
        found = subprocess.check_output(["bash", "-c", f'{line}; echo "$ID"'], text=True)
        monkeypatch.setenv("ID", found.strip())
    else:
        assert command[0] == "gemhooks"
        result = CliRunner().invoke(app, command[1:])
        assert result.exit_code == 0, f"{command}\n{result.output}\n{result.exception}"
        assert "whsec_" not in result.output.replace("whsec_...", "")
