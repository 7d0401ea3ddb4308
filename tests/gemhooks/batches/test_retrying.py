from typing import Any

import orjson
import pytest

from gemhooks.batches.retrying import Retrying

OK: dict[str, Any] = {"response": {"candidates": [{"content": {"parts": [{"text": "x"}]}}]}}
RESULTS = [
    {"key": "answered", **OK},
    {"key": "busy", "error": {"code": 8}},
    {"key": "invalid", "error": {"code": 3}},
    {"key": "refused", "error": {"code": "PERMISSION_DENIED"}},
    {"key": "empty", "response": {}},
    {"key": "blocked", "response": {"candidates": [{"finishReason": "SAFETY"}]}},
    {"key": "twice", "error": {"code": 14}},
    {"key": "twice", **OK},
    OK,  # without a key: nobody's answer
]
KEYS = ["answered", "busy", "invalid", "refused", "empty", "blocked", "twice", "missing"]


def lines(rows: list[Any]) -> list[bytes]:
    return [orjson.dumps(row) for row in rows]


def chosen(
    *, everything: bool = False, extra: tuple[bytes, ...] = ()
) -> tuple[Retrying, list[Any]]:
    retrying = Retrying(everything=everything)
    retrying.results([*lines(RESULTS), b"odd"])
    requests = [*lines([{"key": key, "request": {}} for key in KEYS]), *extra]
    again = list(retrying.requests(requests))
    return retrying, [orjson.loads(line).get("key") for line in again]


def test_what_failed_or_never_came_is_sent_again_and_what_is_hopeless_is_not() -> None:
    retrying, keys = chosen()

    assert keys == ["busy", "empty", "blocked", "missing"]
    assert (retrying.again, retrying.answered, retrying.hopeless) == (4, 2, 2)


def test_what_is_hopeless_is_sent_again_when_it_is_wanted() -> None:
    _, keys = chosen(everything=True)

    assert keys == ["busy", "invalid", "refused", "empty", "blocked", "missing"]


@pytest.mark.parametrize("line", [b'{"request":{}}', b'{"key":null}'])
def test_a_request_without_a_key_is_sent_again_and_told(line: bytes) -> None:
    retrying, keys = chosen(extra=(line, b"", b"  "))

    assert keys[-1] is None
    assert retrying.keyless == 1


def test_a_number_is_the_key_that_its_text_is() -> None:
    retrying = Retrying()
    retrying.results(lines([{"key": 7, **OK}]))

    assert not list(retrying.requests(lines([{"key": "7"}, {"key": 7}])))
