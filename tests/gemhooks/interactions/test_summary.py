from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemhooks.interactions import Tokens, summarise
from tests.gemhooks.interactions.samples import ENDED, STEPS


def test_a_summary_has_what_people_ask_for() -> None:
    usage = {
        "input_tokens_by_modality": [{"modality": "text", "tokens": 11}],
        "total_input_tokens": 12,
        "total_thought_tokens": "1120",
        "total_tokens": 1132,
        "grounding_tool_count": [{"type": "google_search", "count": 3}],
    }

    found = summarise(
        ENDED | {"model": "models/m", "service_tier": "flex", "steps": STEPS, "usage": usage}
    )

    assert (found.status, found.model, found.service_tier) == ("completed", "m", "flex")
    assert found.text == "Hello"
    assert found.seconds == 9
    assert found.grounding == {"google_search": 3}
    assert found.tokens == (
        Tokens(kind="input", modality="text", tokens=11),
        Tokens(kind="input", modality="unspecified", tokens=1),
        Tokens(kind="thought", modality="unspecified", tokens=1120),
    )
    assert found.tools["f"] == 1
    assert found.tools["google_search"] == 1
    assert found.tools["look"] == 1


def test_of_a_failure_it_has_the_error() -> None:
    found = summarise({"status": "failed", "errors": [None, {"code": 3, "message": "no"}]})

    assert (found.error_code, found.error_message) == ("3", "no")


@pytest.mark.parametrize("times", [("x", "y"), (None, 7), ("2026-11-30T08:00:00Z", "2026-11-30")])
def test_times_that_are_none_give_no_duration(times: tuple[Any, Any]) -> None:
    assert summarise({"created": times[0], "updated": times[1]}).seconds is None


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "content", "text", "tokens", "modality", "code", "name", "count"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=9,
)
NAMES = ["id", "status", "model", "usage", "steps", "errors", "created", "updated", "agent"]


@given(interaction=st.dictionaries(st.sampled_from(NAMES), odd, max_size=9))
def test_nothing_in_it_is_a_reason_to_fail(interaction: dict[str, Any]) -> None:
    assert summarise(interaction).total_tokens == 0


@given(usage=st.dictionaries(st.text(max_size=5), odd), name=st.sampled_from(["usage"]))
def test_no_usage_is_a_reason_to_fail(usage: dict[str, Any], name: str) -> None:
    assert summarise({name: usage}).total_tokens == 0
