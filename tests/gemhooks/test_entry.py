"""How a program ends."""

import sys

import pytest

from gemhooks import entry, logs
from gemhooks.errors import Misconfigured, Unavailable


@pytest.mark.parametrize(("error", "code"), [(Misconfigured, 2), (Unavailable, 1)])
def test_its_sentence_comes_after_the_lines_that_waited(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: type[Exception],
    code: int,
) -> None:
    monkeypatch.setattr(logs, "flush", lambda: sys.stderr.write("lines\n"))

    def program() -> int:
        raise error("It is broken.")

    with pytest.raises(SystemExit) as ended:
        entry.run(program)

    assert ended.value.code == code
    assert capsys.readouterr().err == "lines\ngemhooks: It is broken.\n"
