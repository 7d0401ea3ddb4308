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


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("", "no name"),
        ("unrouted", "own"),
        ("retry.60s", "own"),
        ("answers.dlq", "own"),
        ("x" * 250, "long"),
        ("batches", "built-in"),
        ("gemhooks.interactions", "built-in"),
    ],
)
def test_what_is_ours_is_no_consumers_queue(name: str, word: str) -> None:
    queue = topology.Queue(topology.queue_name(name), ((topology.RESULTS, "batch.fetched"),))

    assert word in topology.unfit(queue)


@pytest.mark.parametrize("name", ["answers", "a.b", "batch", "retries", "x" * 200])
def test_any_other_name_is_a_consumers(name: str) -> None:
    queue = topology.Queue(topology.queue_name(name), ((topology.RESULTS, "batch.fetched"),))

    assert topology.unfit(queue) == ""


def test_who_takes_all_that_lands_in_a_built_in_queue_may_have_it() -> None:
    name, all_of_them = topology.BATCHES.name, topology.BATCHES.bindings
    one = (topology.EVENTS, "batch.failed")

    assert topology.unfit(topology.Queue(name, (*all_of_them, one))) == ""
    assert topology.unfit(topology.Queue(name, (one,)))
    assert topology.unfit(topology.Queue(name, (*all_of_them, (topology.EVENTS, "video.*"))))


def test_several_hashes_take_no_longer_than_one() -> None:
    many_words = "a." * 120 + "a"
    assert not topology.matches("#." * 20 + "x", many_words)
    assert topology.matches("#." * 20 + "a", many_words)
