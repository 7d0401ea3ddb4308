"""The pages say what is so: every command, setting and link in them exists."""

import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from gemhooks.cli import app
from gemhooks.settings import Settings, known_names
from handbook import errors, settings
from handbook.pages import stale
from tests.docs.pages import PAGES, Block, blocks
from tests.integration.processes import ROOT

OURS = re.compile(r"\bGEM(?:HOOKS|INI)_[A-Z][A-Z_]*[A-Z]\b")
ELSEWHERE = {"GEMHOOKS_TEST_INSTALL", "GEMHOOKS_TEST_AMQP_URL", "GEMHOOKS_TEST_MANAGEMENT_URL"}
MORE = {"GEMHOOKS_TEST_DATABASE_URL", "GEMHOOKS_TEST_CRASHES"}


def test_the_reference_says_what_the_code_says() -> None:
    assert [path.name for path, _ in stale()] == [], "run: make docs"


def test_every_setting_is_described_once() -> None:
    described = [field for fields in settings.ABOUT.values() for field in fields]

    assert sorted([*described, *settings.UNSEEN]) == sorted(Settings.__struct_fields__)


def test_for_every_sentence_that_people_are_told_there_is_advice() -> None:
    told = errors.sentences()

    assert len(told) > 90
    assert all(each.advice for each in told)


def test_each_advice_has_a_title_of_its_own_and_a_sentence_that_needs_it() -> None:
    titles = Counter(title for title, _ in set(errors.ADVICE.values()))

    assert [title for title, times in titles.items() if times > 1] == []
    assert set(errors.ADVICE.values()) == {told.advice for told in errors.sentences()}


def test_the_site_builds_and_no_link_in_it_is_dead(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "consumers.html").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_only_settings_and_files_that_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    named = set(OURS.findall(text)) - known_names(Settings) - ELSEWHERE - MORE
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)

    assert named <= _in_code(named), "no such setting"
    assert [each for each in links if not (page.parent / each).exists()] == []


def _in_code(names: set[str]) -> set[str]:
    """Names of other kinds, such as what a deployment file reads, stand in a file of ours."""
    files = [*ROOT.glob("deploy/**/*"), *ROOT.glob("docker-compose*.yml"), ROOT / "Makefile"]
    said = "\n".join(each.read_text("utf-8", "ignore") for each in files if each.is_file())
    return {name for name in names if name in said}


def lines(block: Block) -> Iterator[list[str]]:
    """The commands of a shell block, without variables before and pipes behind them."""
    text = re.sub(r"\\\n", " ", block.text)
    for line in text.splitlines():
        for part in re.split(r"\s*(?:&&|\|\||\||;)\s*", line.partition(" #")[0]):
            words = _words(part)
            while words and re.fullmatch(r"[A-Za-z_]+=.*", words[0]):
                words = words[1:]
            yield words


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # a quote that the split at a pipe has torn
        return []


SHELL = list(blocks("sh", "console", "bash"))


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_every_command_in_the_pages_is_one_that_we_have(block: Block) -> None:
    syntax = subprocess.run(["bash", "-n"], input=block.text, text=True, check=False)
    assert syntax.returncode == 0

    if block.page.name == "cli.md":  # usage lines, written from the code
        return
    for words in lines(block):
        program = words[0].rpartition("/")[2] if words else ""
        if program == "gemhooks":
            understood(words[1:])
        elif program == "make":
            assert all(has_target(word) for word in words[1:] if re.fullmatch(r"[a-z-]+", word))


def understood(arguments: list[str]) -> None:
    """Parse as the program would, and call nothing."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("gemhooks", list(arguments[:0]), resilient_parsing=True)
    rest = list(arguments)
    if rest and rest[0] in ("--version", "--install-completion", "--show-completion", "--help"):
        return
    while hasattr(command, "commands"):
        assert rest, f"gemhooks {' '.join(arguments)} is no whole command"
        assert rest[0] in command.commands, arguments
        command = command.commands[rest.pop(0)]
    if "--help" in rest:
        return
    try:
        command.make_context(command.name, rest, parent=context)
    except typer.BadParameter as wrong:
        if "does not exist" not in str(wrong):  # a file of the reader's may be missing here
            raise


def has_target(name: str) -> bool:
    return re.search(rf"^{name}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE) is not None
