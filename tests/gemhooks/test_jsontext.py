"""What JSON says is what Python gets, and the other way round."""

import codecs
import json
import sys
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gemhooks import jsontext

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_a_value_survives_its_journey_whatever_its_integers(value: object) -> None:
    assert jsontext.loads(jsontext.dumps(value)) == value


@example(-(10**19) + 1)  # the shortest that orjson rounds
@given(st.integers(min_value=2**63) | st.integers(max_value=-(2**63)))
def test_an_integer_beyond_64_bits_stays_exact(number: int) -> None:
    assert jsontext.loads(json.dumps({"n": number})) == {"n": number}
    assert json.loads(jsontext.dumps({"n": number})) == {"n": number}


@given(st.integers(-(2**80), 2**80), st.text())
def test_a_byte_order_mark_is_skipped(number: int, text: str) -> None:
    assert jsontext.loads(codecs.BOM_UTF8 + json.dumps([number, text]).encode()) == [number, text]


@pytest.mark.parametrize(
    "text", [b"", b"\xff", b"NaN", b'"\\ud800"', "\ud800", b"[" * 20_000, b"9" * 5000, b"1e400"]
)
def test_what_no_program_after_us_could_hold_is_malformed(text: bytes | str) -> None:
    with pytest.raises(jsontext.Malformed):
        jsontext.loads(text)


def test_what_the_standard_library_cannot_nest_is_malformed(low_limit: None) -> None:
    deep = b"[" * 900 + b"1" * 20 + b"]" * 900
    with pytest.raises(jsontext.Malformed):
        jsontext.loads(deep)


@pytest.fixture
def low_limit() -> Iterator[None]:
    """Of Python's stack: where it ends differs from version to version."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(600)
    yield
    sys.setrecursionlimit(before)


def test_what_json_has_no_form_for_is_an_error() -> None:
    with pytest.raises(TypeError):
        jsontext.dumps({"a": object()})
    with pytest.raises(ValueError, match="too deeply"):
        jsontext.dumps(_deep(2000))


def _deep(levels: int) -> object:
    value: object = 0
    for _ in range(levels):
        value = [value]
    return value
