"""``gemhooks results`` and ``gemhooks batches``, as a person runs them."""

import codecs
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner, Result

from gemhooks.cli import app
from gemhooks.errors import Misconfigured
from gemhooks.ledger import open_ledger
from gemhooks.results import ResultsStore

ANSWER = {"candidates": [{"content": {"parts": [{"text": "x"}]}}]}
ROWS = [{"key": "a", "response": ANSWER}, {"key": "b", "error": {"code": 14}}]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a batch, a video and an interaction in it."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    monkeypatch.setenv("GEMHOOKS_RESULTS_URL", str(tmp_path / "results"))
    monkeypatch.setenv("GEMHOOKS_DATABASE_URL", url)
    store = ResultsStore(str(tmp_path / "results"))
    rows = b"".join(orjson.dumps(row) + b"\n" for row in ROWS)
    written = store.write("batches", "b1", "rows.jsonl", rows)
    store.write("batches", "b1", "summary.json", b'{"outcome":"partly_failed","ok":1}')
    store.write("batches", "expired", "summary.json", b'{"outcome":"expired"}')
    store.write("videos", "v1", "mp4", b"film")
    ledgers = open_ledger(url)
    ledgers.results.record("batch", "b1", written, len(rows))
    ledgers.close()
    return tmp_path


def run(*arguments: Any) -> Result:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_what_was_stored_is_listed(folder: Path) -> None:
    (row,) = orjson.loads(run("results", "list", "--format", "json").output)

    assert (row["kind"], row["id"]) == ("batch", "b1")
    assert row["url"] == f"file://{folder}/results/batches/b1/rows.jsonl"
    assert orjson.loads(run("results", "list", "--kind", "video", "--format", "json").output) == []


def test_what_is_known_of_a_result_is_shown(folder: Path) -> None:
    shown = orjson.loads(run("results", "show", "batches/b1", "--format", "json").output)

    assert shown["outcome"] == "partly_failed"
    assert [each["file"] for each in shown["files"]] == [
        "batches/rows.jsonl",
        "batches/summary.json",
    ]
    assert "partly_failed" in run("results", "show", "b1").output


def test_a_result_is_copied_whole(folder: Path) -> None:
    assert run("results", "export", "v1", "--to", folder / "out").exit_code == 0

    assert [each.name for each in (folder / "out").iterdir()] == ["v1.mp4"]
    assert (folder / "out" / "v1.mp4").read_bytes() == b"film"


@pytest.mark.parametrize("hostile", ["../../etc/passwd", "nothing", "."])
def test_what_is_not_there_is_said(folder: Path, hostile: str) -> None:
    with pytest.raises(Misconfigured, match="nothing is stored"):
        run("results", "show", hostile)


def test_a_folder_that_cannot_be_written_is_said(folder: Path) -> None:
    (folder / "file").write_text("")

    with pytest.raises(Misconfigured, match="can't be written"):
        run("results", "export", "v1", "--to", folder / "file" / "out")


def requests(folder: Path) -> Path:
    path = folder / "requests.jsonl"
    path.write_bytes(b"".join(b'{"key":"%b","request":{}}\n' % key for key in (b"a", b"b", b"c")))
    return path


def test_the_input_of_what_needs_another_try_is_written(folder: Path) -> None:
    output = folder / "retry.jsonl"

    told = run("batches", "retry", "b1", "--input", requests(folder), "--output", output).output

    assert output.read_bytes() == b'{"key":"b","request":{}}\n{"key":"c","request":{}}\n'
    assert "2 rows to send again" in told
    assert "1 were answered" in told


def test_an_input_with_a_byte_order_mark_has_its_first_request_told_apart(folder: Path) -> None:
    given, output = requests(folder), folder / "retry.jsonl"
    given.write_bytes(codecs.BOM_UTF8 + given.read_bytes())

    told = run("batches", "retry", "b1", "--input", given, "--output", output).output

    assert output.read_bytes() == b'{"key":"b","request":{}}\n{"key":"c","request":{}}\n'
    assert "no key" not in told


def test_of_an_expired_batch_everything_needs_another_try(folder: Path) -> None:
    output = folder / "retry.jsonl"

    run("batches", "retry", "expired", "--input", requests(folder), "--output", output)

    assert output.read_bytes() == requests(folder).read_bytes()


def test_of_a_batch_that_was_never_fetched_nothing_can_be_said(folder: Path) -> None:
    with pytest.raises(Misconfigured, match="has its event been handled"):
        run("batches", "retry", "unknown", "--input", requests(folder))
