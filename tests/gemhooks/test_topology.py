"""Names and delays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemhooks import topology


@given(st.floats(0, 1_000_000))
def test_a_delay_is_never_shorter_than_asked_for(seconds: float) -> None:
    waited, left = topology.first_hop(seconds)
    while left:
        rung, left = topology.first_hop(left)
        waited += rung

    assert waited >= seconds - 0.5


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("batch.*", "batch.succeeded", True),
        ("batch.*", "batch", False),
        ("batch.*", "batch.a.b", False),
        ("#", "anything.at.all", True),
        ("#.b", "a.b", True),
        ("a.#", "a", True),
        ("interaction.completed", "interaction.completed", True),
        ("interaction.completed", "interaction.completedx", False),
    ],
)
def test_patterns_mean_what_amqp_says(pattern: str, key: str, *, expected: bool) -> None:
    assert topology.matches(pattern, key) is expected


def test_a_queue_keeps_its_prefix_once() -> None:
    assert topology.queue_name("answers") == "gemhooks.answers"
    assert topology.queue_name("gemhooks.answers") == "gemhooks.answers"
