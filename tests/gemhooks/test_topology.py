"""Names and delays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemhooks import topology
from gemhooks.runner import JITTER


@given(st.floats(0, 1_000_000))
def test_a_delay_is_never_shorter_than_asked_for(seconds: float) -> None:
    assert waited(seconds) >= seconds


@given(st.sampled_from(topology.RUNGS), st.floats(0, JITTER))
def test_jitter_lifts_no_wait_onto_the_next_rung(rung: int, jitter: float) -> None:
    assert waited(rung * (1 + jitter)) <= max(rung * 1.34, rung + 1)


def waited(seconds: float) -> int:
    """How long it is on all its hops."""
    total, left = topology.first_hop(seconds)
    while left:
        rung, left = topology.first_hop(left)
        total += rung
    return total


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
