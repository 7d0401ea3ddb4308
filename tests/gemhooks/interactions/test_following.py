import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemhooks.errors import NotYet, Refused, Retry
from gemhooks.gemini.stream import Frame
from gemhooks.interactions import Unknown, assemble, follow
from tests.gemhooks.interactions.samples import ENDED, ID, STEPS
from tests.gemhooks.interactions.streaming import CutStreams, events_of

Json = dict[str, Any]
WHOLE = ENDED | {"model": "m", "steps": [step for step in STEPS if step["type"] != "user_input"]}
EVENTS = events_of(WHOLE)


def seen(source: Any, **options: Any) -> list[Json]:
    found = follow(ID, gemini=source, pause=lambda _: None, **options)
    return [event.to_json() for event in found]


def test_every_event_comes_once_and_in_order() -> None:
    source = CutStreams(EVENTS)

    assert seen(source) == source.sent
    assert source.asked_after == [""]


@given(cuts=st.lists(st.integers(0, 9), max_size=12))
def test_cut_anywhere_and_resumed_it_is_the_same_stream(cuts: list[int]) -> None:
    source = CutStreams(EVENTS, cuts=cuts, status="in_progress")

    events = list(follow(ID, gemini=source, pause=lambda _: None))

    assert [event.to_json() for event in events] == source.sent
    assert assemble(events) == WHOLE


@given(
    cuts=st.lists(st.integers(0, 60), max_size=5),
    nameless=st.sets(st.sampled_from(["step.delta", "step.stop", "interaction.status_update"])),
)
def test_events_without_an_id_are_not_doubled_either(cuts: list[int], nameless: set[str]) -> None:
    source = CutStreams(EVENTS, cuts=cuts, nameless=tuple(nameless), status="in_progress")

    assert seen(source) == source.sent


def test_an_integer_of_any_length_ends_no_stream() -> None:
    call = {"type": "function_call", "name": "f", "arguments": {"order": 10**25}}
    start = {"event_type": "step.start", "index": 0, "step": call}
    source = CutStreams([*EVENTS[:1], start, *EVENTS[1:]], nameless=("step.start",))

    assert start in seen(source)


def test_a_cut_of_an_interaction_that_is_over_by_now_loses_nothing() -> None:
    source = CutStreams(EVENTS, cuts=[3], status="completed")

    assert seen(source) == source.sent


@pytest.mark.parametrize("cuts", [[3, 0, 0, 2], [0, 0, 0, 0]])
def test_connections_that_bring_nothing_are_not_the_end_of_it(cuts: list[int]) -> None:
    source = CutStreams(EVENTS, cuts=cuts, status="completed")

    assert seen(source) == source.sent


def test_a_stream_that_never_brings_its_last_event_ends_when_gemini_says_so() -> None:
    source = CutStreams(EVENTS[:-1], says_done=False, status="failed")

    assert seen(source) == source.sent


def test_the_stream_can_be_taken_up_where_another_left_it() -> None:
    source = CutStreams(EVENTS)

    assert seen(source, last_event_id="e4") == source.sent[5:]


def test_it_ends_with_its_last_event_even_if_nobody_says_done() -> None:
    source = CutStreams(EVENTS, says_done=False)

    assert seen(source) == source.sent


def test_done_without_a_last_event_is_the_end_if_gemini_says_so() -> None:
    source = CutStreams(EVENTS[:-1], status="requires_action")

    assert seen(source) == source.sent


def test_done_in_the_middle_is_not_the_end() -> None:
    class EarlyDone(CutStreams):
        def frames(self, interaction_id: str, *, after: str = "") -> Any:
            for place, frame in enumerate(super().frames(interaction_id, after=after)):
                if place == 3:
                    yield Frame("done", "[DONE]")
                    return
                yield frame

    source = EarlyDone(EVENTS, status="in_progress")

    assert seen(source) == source.sent


def test_a_server_that_starts_from_the_beginning_doubles_nothing() -> None:
    class Forgetful(CutStreams):
        def frames(self, interaction_id: str, *, after: str = "") -> Any:
            return super().frames(interaction_id)

    source = Forgetful(EVENTS, cuts=[7, 9], nameless=())

    assert seen(source) == source.sent


def test_what_is_no_json_is_an_unknown_event() -> None:
    class Odd(CutStreams):
        def frames(self, interaction_id: str, *, after: str = "") -> Any:
            yield Frame("step.delta", '{"cut')
            yield from super().frames(interaction_id, after=after)

    first = next(follow(ID, gemini=Odd(EVENTS), pause=lambda _: None))

    assert type(first) is Unknown
    assert first.metadata == {"data": '{"cut'}


def test_an_error_in_the_stream_does_not_end_it() -> None:
    error = {"event_type": "error", "error": {"code": "unavailable", "message": "try again"}}
    source = CutStreams([*EVENTS[:4], error, *EVENTS[4:]], cuts=[5], status="in_progress")

    assert seen(source) == source.sent


def test_silence_is_given_up_after_the_patience() -> None:
    source = CutStreams([], status="in_progress")

    with pytest.raises(Retry, match="nothing new"):
        seen(source, patience=0.0)


class Failing(CutStreams):
    """Fails at the connections that *errors* say."""

    errors: list[Exception]

    def frames(self, interaction_id: str, *, after: str = "") -> Any:
        if self.errors:
            raise self.errors.pop(0)
        return super().frames(interaction_id, after=after)


@pytest.mark.parametrize("error", [NotYet("not_found"), Refused("no")])
def test_what_cannot_be_had_at_all_is_told(error: Exception) -> None:
    source = Failing(EVENTS)
    source.errors = [error]

    with pytest.raises(type(error)):
        seen(source)


def test_a_wait_that_gemini_asks_for_is_kept() -> None:
    pauses: list[float] = []
    source = Failing(EVENTS)
    source.errors = [Retry("429", at_least=7.0), Retry("cut")]

    assert list(follow(ID, gemini=source, pause=pauses.append))
    assert pauses[0] == 7.0
    assert 0 < pauses[1] <= 1


def test_an_id_that_is_lost_for_a_moment_in_between_is_waited_for() -> None:
    source = Failing(EVENTS, cuts=[4])
    source.errors = []
    found = follow(ID, gemini=source, pause=lambda _: None)
    first = [next(found) for _ in range(4)]
    source.errors = [NotYet("not_found")]

    rest = []
    for event in found:
        rest.append(event)
        source.errors.clear()

    assert [event.to_json() for event in [*first, *rest]] == source.sent


def test_nothing_of_the_content_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    seen(CutStreams(EVENTS, cuts=[3], status="in_progress"))

    assert "Hello" not in caplog.text
