import base64
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemhooks.interactions import Assembly, assemble, parse
from tests.gemhooks.interactions.samples import DELTAS, ENDED, STEPS, USAGE
from tests.gemhooks.interactions.streaming import events_of

Json = dict[str, Any]


def folded(*events: Json) -> Json:
    return assemble(parse(event) for event in events)


def start(step: Json) -> Json:
    return {"event_type": "step.start", "index": 0, "step": step}


def delta(given: Json) -> Json:
    return {"event_type": "step.delta", "index": 0, "delta": given}


def test_the_whole_is_what_a_get_returns() -> None:
    whole = ENDED | {"model": "gemini-3.8-flash", "steps": STEPS}

    again = folded(*events_of(whole))

    model_steps = [step for step in STEPS if step["type"] != "user_input"]
    assert again == whole | {"steps": model_steps}


def test_arguments_in_pieces_are_joined_and_parsed() -> None:
    pieces = ('{"ci', 'ty": "Zü', 'rich", "n": ', "1}")

    again = folded(
        start({"type": "function_call", "id": "c", "name": "f", "arguments": {}}),
        *(delta({"type": "arguments_delta", "arguments": piece}) for piece in pieces),
    )

    assert again["steps"][0]["arguments"] == {"city": "Zürich", "n": 1}


def test_arguments_that_are_no_json_are_kept_as_they_came() -> None:
    again = folded(
        start({"type": "function_call", "id": "c", "name": "f", "arguments": {}}),
        delta({"type": "arguments_delta", "arguments": '{"cut'}),
    )

    assert again["steps"][0]["arguments"] == '{"cut'


def test_a_look_in_between_changes_nothing() -> None:
    assembly = Assembly()
    for event in events_of(ENDED | {"steps": STEPS}, piece=3):
        assembly.add(parse(event))
        _ = assembly.interaction["steps"].append("mine")

    assert assembly.interaction == folded(*events_of(ENDED | {"steps": STEPS}))


def test_text_after_an_image_is_a_part_of_its_own() -> None:
    image = {"type": "image", "data": "aGk=", "mime_type": "image/png"}
    texts = [delta({"type": "text", "text": each}) for each in ("a", "b")]

    again = folded(start({"type": "model_output"}), texts[0], delta(image), *texts)

    assert again["steps"][0]["content"] == [
        {"type": "text", "text": "a"},
        image,
        {"type": "text", "text": "ab"},
    ]


def test_pieces_of_sound_become_one_sound() -> None:
    pieces = [b"abcd", b"e", b"fghijk"]
    deltas = [
        delta({"type": "audio", "data": base64.b64encode(each).decode(), "mime_type": "audio/wav"})
        for each in pieces
    ]

    again = folded(start({"type": "model_output"}), *deltas)

    (sound,) = again["steps"][0]["content"]
    assert base64.b64decode(sound["data"]) == b"abcdefghijk"


@pytest.mark.parametrize("given", DELTAS)
def test_a_delta_without_a_start_is_no_reason_to_fail(given: Json) -> None:
    assert len(folded(delta(given))["steps"]) == 1


@pytest.mark.parametrize("given", DELTAS)
def test_a_delta_whose_fields_are_null_is_no_reason_to_fail(given: Json) -> None:
    nothing = dict.fromkeys(given, None) | {"type": given["type"]}

    assert len(folded(delta(nothing))["steps"]) == 1


def test_usage_comes_from_the_latest_event_that_has_it() -> None:
    early = {
        "event_type": "step.stop",
        "index": 0,
        "metadata": {"total_usage": {"total_tokens": 1}},
    }
    late = {"event_type": "step.stop", "index": 0, "metadata": {"total_usage": USAGE}}

    assert folded(early, late)["usage"] == USAGE
    ended = {"event_type": "interaction.completed", "interaction": {"usage": {"total_tokens": 9}}}
    assert folded(late, ended)["usage"] == {"total_tokens": 9}


def test_steps_that_the_last_event_brings_are_the_ones() -> None:
    ended = {"event_type": "interaction.completed", "interaction": ENDED | {"steps": STEPS[:2]}}

    assert folded(start({"type": "thought"}), ended)["steps"] == STEPS[:2]


def test_an_error_is_kept_where_a_get_has_it() -> None:
    error = {"code": "x", "message": "y"}

    assert folded({"event_type": "error", "error": error})["errors"] == [error]


text = st.text(max_size=40)
content = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": st.text(min_size=1, max_size=40)}),
    st.builds(
        lambda sound: {"type": "audio", "data": base64.b64encode(sound).decode()},
        st.binary(min_size=1, max_size=30),
    ),
    st.just({"type": "image", "uri": "files/i", "mime_type": "image/png"}),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


def _no_two_alike_in_a_row(contents: list[Json]) -> bool:
    """Two texts in a row are one text to whoever sees only the stream."""
    kinds = [each["type"] for each in contents]
    return all(one != other or one == "image" for one, other in itertools.pairwise(kinds))


steps = st.lists(
    st.one_of(
        st.builds(
            lambda parts: {"type": "model_output", "content": parts},
            st.lists(content, min_size=1, max_size=4).filter(_no_two_alike_in_a_row),
        ),
        st.builds(
            lambda arguments: {
                "type": "function_call",
                "id": "c",
                "name": "f",
                "arguments": arguments,
            },
            st.dictionaries(text, values, max_size=4),
        ),
        st.sampled_from([step for step in STEPS if step["type"] != "user_input"]),
    ),
    max_size=5,
)


@given(steps=steps, piece=st.integers(1, 17), usage=st.booleans())
def test_any_interaction_however_cut_up_folds_to_itself(
    steps: list[Json], piece: int, *, usage: bool
) -> None:
    whole = ENDED | {"agent": "a", "steps": steps}
    if not usage:
        whole = {name: value for name, value in whole.items() if name != "usage"}

    assert folded(*events_of(whole, piece=piece)) == whole
