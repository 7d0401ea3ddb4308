import base64
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from google.cloud import ces_v1
from hypothesis import given
from hypothesis import strategies as st

from gemhooks.conversations.values import DEEPEST, decoded, encoded, json_object, normal_time
from tests.gemhooks.conversations.strategies import FRACTIONS, OBJECTS

# The years that every offset stays inside of.
SECONDS = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)).map(  # noqa: DTZ001 - local on purpose
    lambda when: when.replace(microsecond=0)
)
OFFSETS = st.builds(
    "{}{:02}:{:02}".format, st.sampled_from("+-"), st.integers(0, 23), st.integers(0, 59)
)


@given(SECONDS, FRACTIONS, OFFSETS | st.sampled_from("Zz"), st.sampled_from("Tt"))
def test_a_time_is_written_as_googles_own_library_writes_it(
    seconds: datetime, fraction: str, offset: str, between: str
) -> None:
    text = seconds.isoformat().replace("T", between) + fraction + offset
    official = ces_v1.Message.from_json(json.dumps({"eventTime": text.upper()}))

    assert normal_time(text) == json.loads(ces_v1.Message.to_json(official))["eventTime"]


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("2026-11-30T08:00:00Z", "2026-11-30T08:00:00Z"),
        ("2026-11-30T08:00:00.000000000Z", "2026-11-30T08:00:00Z"),
        ("2026-11-30T08:00:00.1Z", "2026-11-30T08:00:00.100Z"),
        ("2026-11-30T08:00:00.1234Z", "2026-11-30T08:00:00.123400Z"),
        ("2026-11-30T08:00:00.123456789Z", "2026-11-30T08:00:00.123456789Z"),
        ("2026-11-30T08:00:00.000000001-05:30", "2026-11-30T13:30:00.000000001Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    ],
)
def test_a_time_has_no_three_six_or_nine_digits_and_loses_none(text: str, normal: str) -> None:
    assert normal_time(text) == normal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-30",
        "2026-11-30 08:00:00Z",
        "2026-11-30T08:00:00",
        "2026-11-30T08:00:00.Z",
        "2026-11-30T08:00:00.0123456789Z",
        "2026-11-31T08:00:00Z",
        "2026-11-30T24:00:00Z",
        "2026-11-30T08:00:60Z",
        "2026-11-30T08:00:00+24:00",
        "2026-11-30T08:00:00+05:60",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "٢٠٢٦-11-30T08:00:00Z",
        "2026-11-30T08:00:00Z\n",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="time"):
        normal_time(text)


def test_a_pythons_time_is_taken_with_its_zone() -> None:
    when = datetime(2026, 11, 30, 8, 0, 0, 120_000, timezone(timedelta(hours=1)))

    assert normal_time(when.isoformat()) == "2026-11-30T07:00:00.120Z"
    assert normal_time(when.astimezone(UTC).isoformat()) == "2026-11-30T07:00:00.120Z"


@given(st.binary(max_size=40), st.sampled_from([base64.b64encode, base64.urlsafe_b64encode]))
def test_base64_is_read_in_both_alphabets_and_written_in_the_standard_one(
    raw: bytes, encode: Any
) -> None:
    text = encode(raw).decode()

    assert decoded(text) == decoded(text.rstrip("=")) == raw
    assert encoded(raw) == base64.b64encode(raw).decode()


@pytest.mark.parametrize("text", ["a", "abcde", "ab c", "ab\nc", "ab=c", "%%%%", "äöüß"])
def test_what_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not base64"):
        decoded(text)


@given(OBJECTS)
def test_a_json_object_stays_what_it_is(value: dict[str, Any]) -> None:
    assert json_object(value) is value


def _nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def test_an_object_may_be_as_deep_as_googles_own_parser_takes() -> None:
    json_object(_nested(DEEPEST))

    with pytest.raises(ValueError, match="deeper than 45 levels"):
        json_object(_nested(DEEPEST + 1))


def test_an_object_that_holds_itself_twice_a_level_ends() -> None:
    value: dict[str, Any] = {}
    value["a"] = value["b"] = value

    with pytest.raises(ValueError, match="values"):
        json_object(value)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        10**400,
        "\ud800",
        b"bytes",
        {1: 2},
        {"\ud800": 1},
        (1,),
        object(),
    ],
)
def test_what_json_can_not_say_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        json_object({"a": [value]})
