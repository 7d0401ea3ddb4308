"""``gemhooks demo`` as a newcomer runs it."""

import re
from pathlib import Path

import pytest

from gemhooks.cli.demo_outcome import CONVERSATIONS, Chain, report
from gemhooks.errors import Unavailable
from gemhooks.ledger import Job
from tests.integration.processes import ROOT, process


def test_one_completes_one_has_its_functions_run_and_one_fails(tmp_path: Path) -> None:
    with process("gemhooks", "demo", log=tmp_path / "log", env={}, cwd=tmp_path) as demo:
        code = demo.wait(240)
    said = (tmp_path / "log").read_text()

    assert code == 0, said
    assert re.search(r"get_weather,\s.*completed", said), said
    assert "failed" in said
    assert "your table is booked" in said  # the consumer of the user's own has it
    assert len(list((tmp_path / "gemhooks-data").glob("demo-*/results/interactions/*.json"))) >= 2
    assert (ROOT / "examples" / "answers.py").is_file()


def job(state: str, *, has_ended: bool = True) -> Job:
    ended_at = 1.0 if has_ended else None
    told = {"event_type": "", "source": "", "error_code": None, "error_message": None}
    times = {"created_at": 0.0, "updated_at": 0.0, "expected_at": None, "ended_at": ended_at}
    return Job("interaction", "v1_x", state, **told, user_metadata=None, **times, ours=True)  # type: ignore[arg-type]  # of mixed types


CALLED = ("book_table", "get_weather")


@pytest.mark.parametrize(
    ("number", "jobs", "called", "is_right"),
    [
        (0, [job("completed")], (), True),
        (0, [job("failed")], (), False),
        (0, [job("completed", has_ended=False)], (), False),
        (1, [job("continued"), job("completed")], CALLED, True),
        (1, [job("completed")], (), False),
        (1, [job("continued"), job("completed")], (*CALLED, "get_weather"), False),
        (2, [job("failed")], (), True),
        (2, [job("completed")], (), False),
    ],
)
def test_the_demo_fails_where_a_conversation_comes_out_wrong(
    tmp_path: Path, number: int, jobs: list[Job], called: tuple[str, ...], *, is_right: bool
) -> None:
    chain = Chain(CONVERSATIONS[number], tuple(jobs), called)
    if is_right:
        report([chain], tmp_path)
        return
    with pytest.raises(Unavailable, match="did not come out"):
        report([chain], tmp_path)
