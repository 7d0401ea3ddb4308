import codecs
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemhooks.batches import Outcome, Row, Tally, read_row
from gemhooks.batches import lines as lines_module
from gemhooks.batches.keys import Keys
from gemhooks.batches.lines import lines_of
from gemhooks.batches.rows import row_of

ANSWER: dict[str, Any] = {"candidates": [{"content": {"parts": [{"text": "x"}]}}]}


@pytest.mark.parametrize(
    ("line", "row"),
    [
        # The three of the guide and its notebooks, a bare response, a bare status, and oddities.
        ({"key": "r", "response": ANSWER}, Row(Outcome.OK, "r")),
        ({"key": "r", "error": {"code": 3, "message": "no"}}, Row(Outcome.FAILED, "r", 3)),
        (
            {"key": "r", "response": {"tokenCount": "1", "embedding": {"values": [0.1]}}},
            Row(Outcome.OK, "r", tokens=(("input", "unspecified", 1),)),
        ),
        ({**ANSWER, "modelVersion": "m"}, Row(Outcome.OK)),
        ({"code": 13, "message": "broke"}, Row(Outcome.FAILED, None, 13)),
        ({"metadata": {"key": "r"}, "response": ANSWER}, Row(Outcome.OK, "r")),
        ({"key": 7, "response": ANSWER}, Row(Outcome.OK, "7")),
        ({"key": "", "response": ANSWER}, Row(Outcome.OK)),
        ({"key": "r", "response": {}}, Row(Outcome.EMPTY, "r")),
        ({"key": "r", "response": {"candidates": []}}, Row(Outcome.EMPTY, "r")),
        ({"key": "r", "response": {"candidates": [{}]}}, Row(Outcome.EMPTY, "r")),
        ({"key": "r", "response": None, "error": None}, Row(Outcome.EMPTY, "r")),
        ({"key": "r", "error": "text"}, Row(Outcome.FAILED, "r")),
        ({"key": "r", "response": {"error": {"code": 8}}}, Row(Outcome.FAILED, "r", 8)),
        ({"key": "r", "status": {"code": 3, "message": "no"}}, Row(Outcome.FAILED, "r", 3)),
        ({"key": "r", "status": {}, "response": ANSWER}, Row(Outcome.OK, "r")),
        ({"key": "r", "response": {"embedding": {"values": []}}}, Row(Outcome.EMPTY, "r")),
        ({"key": "r", "response": {"embedding": {"values": None}}}, Row(Outcome.EMPTY, "r")),
        ({"key": "r", "response": {"embeddings": [{"values": []}]}}, Row(Outcome.EMPTY, "r")),
        ({"key": "r", "response": {"embeddings": [{"values": [0.1]}]}}, Row(Outcome.OK, "r")),
        ({"key": ["r"]}, Row(Outcome.EMPTY)),
        ({}, Row(Outcome.EMPTY)),
        ([], Row(Outcome.MALFORMED)),
        (None, Row(Outcome.MALFORMED)),
    ],
)
def test_a_row_is_what_it_holds(line: Any, row: Row) -> None:
    assert read_row(orjson.dumps(line)) == row


def test_a_row_that_is_too_deep_to_read_its_key_exactly_spoils_no_other() -> None:
    deep = b"[" * 1010 + b"]" * 1010
    row = read_row(b'{"key":12345678901234567890,"response":%b}' % deep)
    assert row in (Row(Outcome.MALFORMED), Row(Outcome.EMPTY, "12345678901234567890"))


NOTHING: list[dict[str, Any]] = [
    {},
    {"content": None},
    {"content": {}},
    {"content": {"role": "model"}},
    {"content": {"role": "model", "parts": []}},
    {"content": {"parts": None}},
    {"content": {"parts": {"text": "x"}}},
    {"content": {"parts": [{"text": ""}]}},
    {"content": {"parts": [{"text": " \n"}]}},
    {"content": {"parts": [{"text": "", "thoughtSignature": "c2ln"}]}},
    {"content": {"parts": [{"text": "Let me see.", "thought": True}]}},
    {"content": {"parts": [{}, None, "x"]}},
    {"content": "x"},
]
reasons = st.sampled_from(
    ["STOP", "SAFETY", "PROHIBITED_CONTENT", "RECITATION", "MAX_TOKENS", "MALFORMED_FUNCTION_CALL"]
)
blocked: st.SearchStrategy[Any] = st.builds(
    lambda nothing, reason: {**nothing, "finishReason": reason}, st.sampled_from(NOTHING), reasons
) | st.sampled_from([None, 1, "x", [], {}])
answering = st.builds(lambda reason: {**ANSWER["candidates"][0], "finishReason": reason}, reasons)


@given(candidates=st.lists(blocked, max_size=4))
def test_a_row_without_content_is_empty_whatever_its_finish_reason(candidates: list[Any]) -> None:
    line = orjson.dumps({"key": "r", "response": {"candidates": candidates}})

    assert read_row(line).outcome is Outcome.EMPTY


@given(before=st.lists(blocked, max_size=3), one=answering, after=st.lists(blocked, max_size=3))
def test_one_candidate_with_content_is_an_answer(
    before: list[Any], one: dict[str, Any], after: list[Any]
) -> None:
    line = orjson.dumps({"key": "r", "response": {"candidates": [*before, one, *after]}})

    assert read_row(line) == Row(Outcome.OK, "r")


@pytest.mark.parametrize("candidates", [True, 1, "text", {"content": ANSWER}])
def test_candidates_that_are_no_list_are_no_answer(candidates: Any) -> None:
    line = orjson.dumps({"response": {"candidates": candidates}})

    assert read_row(line) == Row(Outcome.EMPTY)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ({"candidates": [{"finishReason": "SAFETY"}]}, "SAFETY"),
        ({"promptFeedback": {"blockReason": "OTHER"}}, "OTHER"),
        ({"candidates": [], "promptFeedback": {"blockReason": "OTHER"}}, "OTHER"),
        ({"candidates": [{"finishReason": 7}]}, ""),
        ({"candidates": [{"finishReason": "no name of Gemini's"}]}, ""),
        ({"candidates": [1], "promptFeedback": []}, ""),
    ],
)
def test_an_empty_row_says_why_in_geminis_word(response: Any, reason: str) -> None:
    assert read_row(orjson.dumps({"response": response})) == Row(Outcome.EMPTY, reason=reason)


def test_why_rows_are_empty_is_counted_without_end_but_not_told_without_end() -> None:
    tally = Tally()
    tally.count(Row(Outcome.EMPTY))
    for number in range(500):
        tally.count(Row(Outcome.EMPTY, str(number), reason=f"{'R' * 30}{number}{'R' * 30}"))

    counted = tally.counts(None)["reasons"]
    assert (len(counted), sum(counted.values())) == (51, 501)
    assert counted["unspecified"] == 1
    assert max(map(len, counted)) == 40
    tally.close()


def test_what_an_empty_row_cost_is_counted() -> None:
    usage = {"promptTokenCount": 8, "thoughtsTokenCount": 4}
    candidates = [{"finishReason": "MAX_TOKENS"}]
    row = read_row(orjson.dumps({"response": {"candidates": candidates, "usageMetadata": usage}}))

    assert row.outcome is Outcome.EMPTY
    assert row.tokens == (("input", "unspecified", 8), ("thought", "unspecified", 4))


def test_tokens_are_told_by_kind_and_modality() -> None:
    usage = {
        "promptTokenCount": 8,
        "promptTokensDetails": [
            {"modality": "TEXT", "tokenCount": 5},
            {"modality": "IMAGE", "tokenCount": 2},
        ],
        "thoughtsTokenCount": 4,
        "candidatesTokenCount": None,
    }
    row = read_row(orjson.dumps({"response": {**ANSWER, "usageMetadata": usage}}))

    assert row.tokens == (
        ("input", "text", 5),
        ("input", "image", 2),
        ("input", "unspecified", 1),
        ("thought", "unspecified", 4),
    )


@given(line=st.binary(max_size=200))
def test_no_line_is_a_reason_to_fail(line: bytes) -> None:
    assert read_row(line).outcome in Outcome


odd = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("response", "error", "key", "metadata", "code", "usageMetadata"),
                    *("candidates", "content", "parts", "promptFeedback"),
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=9,
)


@given(given=odd)
def test_no_json_is_a_reason_to_fail(given: Any) -> None:
    assert read_row(orjson.dumps(given)).outcome in Outcome


@given(
    parts=st.lists(st.binary(max_size=9).map(lambda part: part.replace(b"\n", b""))),
    size=st.integers(1, 7),
    last=st.booleans(),
)
def test_lines_are_the_same_however_they_arrive(
    parts: list[bytes], size: int, *, last: bool
) -> None:
    whole = b"\n".join(parts) + (b"\n" if last else b"")
    chunks = [whole[start : start + size] for start in range(0, len(whole), size)]

    expected = whole.removeprefix(codecs.BOM_UTF8).split(b"\n")
    assert list(lines_of(chunks)) == [line for each in expected if (line := each.rstrip(b"\r"))]


@given(
    mark=st.sampled_from([b"", codecs.BOM_UTF8]),
    end=st.sampled_from([b"\n", b"\r\n"]),
    rows=st.lists(st.sampled_from([b"", b"{}", b"x", codecs.BOM_UTF8 + b"{}"]), max_size=3),
    size=st.integers(1, 7),
    last=st.booleans(),
)
def test_a_byte_order_mark_is_taken_off_at_the_start_of_a_file_and_nowhere_else(
    mark: bytes, end: bytes, rows: list[bytes], size: int, *, last: bool
) -> None:
    rows = [b"{}", *rows]
    whole = mark + end.join(rows) + (end if last else b"")
    chunks = [whole[start : start + size] for start in range(0, len(whole), size)]

    assert list(lines_of(chunks)) == [row for row in rows if row]


@pytest.mark.parametrize("rest", [b"", b"\n", b"\r\n", b"\n\r\n"])
def test_a_file_of_nothing_but_a_byte_order_mark_has_no_lines(rest: bytes) -> None:
    assert not list(lines_of([codecs.BOM_UTF8 + rest]))


def test_the_first_row_after_a_byte_order_mark_is_an_answer() -> None:
    tally = Tally()
    for byte in codecs.BOM_UTF8 + orjson.dumps({"key": "r", "response": ANSWER}):
        tally.feed(bytes([byte]))
    tally.end()

    assert tally.outcome(1) == "succeeded"
    tally.close()


def test_a_line_without_end_takes_no_memory_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 10)

    found = list(lines_of([b"x" * 6] * 100 + [b"\nnext\n"]))

    assert found == [b"x" * 10, b"next"]


@given(keys=st.lists(st.text(max_size=3)))
def test_keys_are_a_set_that_counts(keys: list[str]) -> None:
    seen = Keys()
    for key in keys:
        seen.add(key)

    assert seen.distinct == len(set(keys))
    assert seen.again == len(keys) - len(set(keys))
    assert all(key in seen for key in keys)
    assert "never added" not in seen
    seen.close()


def test_kinds_of_errors_are_counted_without_end_but_not_told_without_end() -> None:
    tally = Tally()
    for number in range(500):
        tally.count(Row(Outcome.FAILED, str(number), number))

    errors = tally.counts(None)["errors"]
    assert len(errors) == 51
    assert sum(errors.values()) == 500
    tally.close()


def test_keys_that_are_large_numbers_are_told_apart() -> None:
    lines = [b'{"key":%d,"response":{"candidates":[{}]}}' % (10**20 + each) for each in (0, 1)]

    assert [read_row(line).key for line in lines] == [str(10**20), str(10**20 + 1)]


def vector_line(**more: Any) -> bytes:
    values = [0.25, -1.5e-3, 7, *([0.125] * 300)]
    answer = {"embedding": {"values": values}, "tokenCount": "12"}
    return json.dumps({"key": "r\n1", "response": answer, **more}).encode()


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"error": {"code": 3}},
        {"error": None},
        {"key": ""},
        {"key": 2**70},
        {"key": None, "metadata": {"key": "m"}},
        {"response": {"embedding": {}, "text": "x" * 2000}},
        {"response": {"embedding": None, **ANSWER, "text": "x" * 2000}},
        {"response": [{"embedding": "x" * 2000}]},
        {"other": "é" * 2000},
    ],
)
def test_a_row_with_a_vector_is_what_it_would_be_read_as_a_whole(more: dict[str, Any]) -> None:
    line = vector_line(**more)

    assert read_row(line) == row_of(json.loads(line))


def test_a_vectors_row_that_is_nested_without_end_is_malformed() -> None:
    deep = b"[" * 5000 + b"]" * 5000
    line = vector_line().removesuffix(b"}") + b', "other": ' + deep + b"}"

    assert read_row(line) == Row(Outcome.MALFORMED)


@pytest.mark.parametrize("change", [1, 4, 16, 128])
def test_a_vectors_row_that_is_no_json_is_malformed_wherever_it_was_spoilt(change: int) -> None:
    good = vector_line()
    for place in range(len(good)):
        spoilt = bytearray(good)
        spoilt[place] ^= change

        assert read_row(bytes(spoilt)) == whole(bytes(spoilt)), spoilt[place - 10 : place + 10]


def whole(line: bytes) -> Row:
    try:
        given = json.loads(line)
    except ValueError:
        return Row(Outcome.MALFORMED)
    return row_of(given) if isinstance(given, dict) else Row(Outcome.MALFORMED)
