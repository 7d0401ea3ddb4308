"""Whatever a model calls and a function returns: one continuation answers it all, nothing twice."""

import datetime as dt
import decimal
import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from gemhooks.functions import Functions
from gemhooks.ledger import Ledgers, open_ledger
from gemhooks.testing import MemoryPublisher
from tests.workers.gemini import MemoryGemini
from tests.workers.test_functions import CONTINUED, OURS, Effects, assembled, event, registry

NEVER_OFFERED = [
    *("get_wether", "", "__import__", "Charge", "charge ", "os.system", "eval", "print"),
    *("register", "_add", "functions.charge", "__init__", "charge\0", "x" * 10_000),
]
UNFIT: list[Any] = [
    *({}, {"order": "o1"}, {"order": "o1", "cents": 1, "note": "x"}, {"order": None, "cents": 1}),
    *({"order": "o1", "cents": cents} for cents in ("100", 1.5, True, math.inf, "1e3", [1], None)),
    {"order": {"a": [{}]}, "cents": 1},
    {"order": "o1", "cents": 1, "self": 1},
    {"order": "o1", "cents": 1, "__class__": "x"},
    *(None, [], "", 5, '{"order": "o1", "cents": 1}'),
]
RETURNED: dict[str, Any] = {
    "number": 5,
    "nothing": None,
    "yes": True,
    "numbers": [1, 2],
    "objects": [{"a": 1}],
    "nan": math.nan,
    "nan_inside": {"d": math.nan},
    "date_inside": {"d": dt.datetime(2026, 1, 2, tzinfo=dt.UTC)},
    "decimal": decimal.Decimal("1.10"),
    "bytes": b"\xff",
    "set": {1},
    "object": object(),
    "error": ValueError("x"),
    "half_a_pair": "\ud800",
    "int_keys": {1: "a"},
}


@pytest.fixture
def ledgers(tmp_path: Path) -> Iterator[Ledgers]:
    with closing(open_ledger(f"sqlite:///{tmp_path}/ledger.db")) as ledgers:
        yield ledgers


def answers(
    functions: Functions, ledgers: Ledgers, calls: list[tuple[str, Any]]
) -> list[dict[str, Any]]:
    """What the one continuation tells the model; the event comes twice."""
    gemini = MemoryGemini()
    gemini.wait_for("v1_a", *calls, **OURS)
    caller = assembled(functions, gemini, MemoryPublisher(), ledgers)
    assert [caller.run(event("v1_a")) for _ in range(2)] == [CONTINUED] * 2

    (request,) = gemini.created
    orjson.dumps(request)  # well-formed, whatever came in
    found: list[dict[str, Any]] = request["input"]
    assert [each["call_id"] for each in found] == [f"c{number}" for number in range(len(calls))]
    return found


def test_a_name_that_was_never_offered_is_answered_beside_the_valid_one(ledgers: Ledgers) -> None:
    effects = Effects()
    valid = ("charge", {"order": "o1", "cents": 5})
    calls = [*((name, {}) for name in NEVER_OFFERED), valid]

    *refused, charged = answers(registry(effects), ledgers, calls)

    assert all(each["is_error"] for each in refused)
    assert all("Known functions: charge, look, broken" in each["result"] for each in refused)
    assert all(len(each["result"]) < 300 for each in refused)
    assert (charged["result"], charged.get("is_error", False)) == ({"charged": 5}, False)
    assert effects.lines == [f"v1_a/c{len(NEVER_OFFERED)} o1 5"]


def test_arguments_that_do_not_fit_reach_no_function_and_the_model_is_told_why(
    ledgers: Ledgers,
) -> None:
    effects = Effects()

    refused = answers(registry(effects), ledgers, [("charge", each) for each in UNFIT])

    assert all(each["is_error"] and each["result"] for each in refused)
    assert effects.lines == []


def test_a_function_may_return_anything_and_is_not_run_again_for_it(ledgers: Ledgers) -> None:
    functions, effects = Functions(), Effects()

    def returning(name: str, value: Any) -> None:
        @functions.function(name=name)
        def body() -> Any:
            effects.add(name)
            return value

    for name, value in RETURNED.items():
        returning(name, value)

    found = answers(functions, ledgers, [(name, {}) for name in RETURNED])

    assert all(isinstance(each["result"], str | dict | list) for each in found)
    failed = {each["name"] for each in found if each.get("is_error")}
    assert failed >= {"nan_inside", "bytes", "object", "error", "half_a_pair"}
    assert not failed & {"number", "nothing", "yes", "numbers", "objects", "date_inside", "decimal"}
    assert sorted(effects.lines) == sorted(RETURNED)
