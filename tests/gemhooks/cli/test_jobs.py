"""``gemhooks jobs`` as a person or a script uses it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gemhooks.cli import app
from gemhooks.errors import Misconfigured
from gemhooks.ledger import Ledgers, open_ledger


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


@pytest.fixture
def ledgers(url: str) -> Iterator[Ledgers]:
    opened = open_ledger(url)
    yield opened
    opened.close()


def jobs(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["jobs", *arguments], env={"GEMHOOKS_DATABASE_URL": url})


def as_json(url: str, *arguments: str) -> Any:
    ended = jobs(url, *arguments, "--format", "json")
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.stdout)


def test_jobs_are_listed_by_kind_and_state(url: str, ledgers: Ledgers) -> None:
    for kind, name, state in (("batch", "a", "failed"), ("batch", "b", "started")):
        ledgers.jobs.record(kind, name, state)
    ledgers.jobs.record("video", "c", "failed")

    assert [each["id"] for each in as_json(url, "list", "--kind", "batch")] == ["b", "a"]
    assert [each["id"] for each in as_json(url, "list", "--state", "failed")] == ["c", "a"]
    assert as_json(url, "list", "--stuck") == []


def test_a_job_is_shown_with_its_results_whatever_prefix_is_given(
    url: str, ledgers: Ledgers
) -> None:
    ledgers.jobs.record("batch", "batches/b1", "failed", error_message="no [bold]quota")
    ledgers.results.record("batch", "b1", "file:///rows.jsonl", 7)

    shown = as_json(url, "show", "b1")

    assert (shown["id"], shown["results"]) == ("batches/b1", ["file:///rows.jsonl"])
    assert shown["ended_at"].endswith("Z")
    assert "no [bold]quota" in jobs(url, "show", "b1").stdout


@pytest.mark.parametrize("arguments", [("show", "nobody"), ("show", "nobody", "--kind", "batch")])
def test_a_job_that_is_not_known_is_one_sentence_that_says_what_to_do(
    url: str, arguments: tuple[str, ...]
) -> None:
    ended = jobs(url, *arguments)

    assert isinstance(ended.exception, Misconfigured)
    assert "gemhooks jobs add" in str(ended.exception)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("v1_x",), "interaction"),
        (("interactions/v1_x",), "interaction"),
        (("batches/b1",), "batch"),
        (("models/veo/operations/o1",), "video"),
        (("operations/o1",), "video"),
        (("o1", "--kind", "video"), "video"),
    ],
)
def test_a_registered_job_is_ours_and_looked_up_at_once(
    url: str, ledgers: Ledgers, arguments: tuple[str, ...], kind: str
) -> None:
    (added,) = as_json(url, "add", *arguments, "--expected-in", "2h")

    assert (added["kind"], added["state"], added["ours"]) == (kind, "started", True)
    due = ledgers.lookups.take(shortest=30.0)
    assert due is not None
    assert due.id == arguments[0]


@pytest.mark.parametrize(
    "arguments",
    [("abc",), ("abc", "--kind", "batches"), ("v1_x", "--expected-in", "soon"), ("v1_x", "abc")],
)
def test_what_cannot_be_registered_is_one_sentence_and_nothing_is(
    url: str, ledgers: Ledgers, arguments: tuple[str, ...]
) -> None:
    ended = jobs(url, "add", *arguments)

    assert isinstance(ended.exception, Misconfigured)
    assert ledgers.jobs.list() == ()


def test_what_others_said_does_not_drive_the_terminal(url: str, ledgers: Ledgers) -> None:
    ledgers.jobs.record("batch", "a\x1b[2J", "failed", error_message="\x1b]0;x\x07 sorry")

    for arguments in (["list"], ["show", "a\x1b[2J"]):
        said = jobs(url, *arguments).stdout
        assert "failed" in said
        assert not {"\x1b", "\x07"} & set(said)
