"""A table shows every column, however narrow the place is."""

import pytest

from gemhooks.cli import tables
from gemhooks.cli.tables import Format

ROWS = [{"id": "v1_" + "x" * 70, "state": "completed", "kind": "interaction"}]


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    tables.show(ROWS, ("kind", "id", "state"), Format.TABLE)
    return capsys.readouterr().out


def test_a_line_is_whole_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = (line for line in shown(capsys).splitlines() if "v1_" in line)

    assert [each in line for each in ("interaction", ROWS[0]["id"], "completed")] == [True] * 3


def test_on_a_narrow_terminal_no_column_is_lost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")

    said = shown(capsys)

    assert "interaction" in said
    assert "completed" in said
    assert said.count("x") >= 70
