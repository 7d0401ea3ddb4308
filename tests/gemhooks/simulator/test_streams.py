"""The stream of an interaction, read by the official client, cut and resumed."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from google import genai
from google.genai import interactions as I  # noqa: N812 - as Google's samples do
from google.genai._gaos.types.interactions import stepdeltadata
from google.genai._interactions_errors import BadRequestError
from pydantic import TypeAdapter

from gemhooks.simulator import (
    Call,
    CallFunctions,
    Fail,
    Faults,
    Say,
    Script,
    Show,
    Simulator,
    Variants,
)
from gemhooks.simulator.samples import ANNOTATIONS, OUTPUT, STEPS, UNKNOWN
from gemhooks.simulator.streams import deltas

MODEL = "gemini-3.8-flash"
ARGUMENTS = {"city": "Paris", "days": [1, 2, 3]}
SCRIPTS = (
    Script(when="weather", turns=(CallFunctions(calls=(Call(name="get", arguments=ARGUMENTS),)),)),
    Script(when="break", turns=(Fail(message="It broke."),)),
    Script(when="everything", turns=(Show(samples=True),)),
    Script(when="budget", turns=(Show(status="budget_exceeded"),)),
    Script(
        when="strange",
        turns=(Show(status="dreaming", steps=(UNKNOWN,), events=({"event_type": "dream.seen"},)),),
    ),
    Script(when="later", turns=(Say(text="At last.", delay=0.2, status_before="queued"),)),
    Script(when="queued", turns=(Say(text="Never.", delay=600, status_before="queued"),)),
    Script(when="never", turns=(Say(text="Never.", delay=600),)),
)


@pytest.fixture
def gemini() -> Iterator[Simulator]:
    with Simulator(delay=0.01, retry_base=0.01, scripts=SCRIPTS) as simulator:
        yield simulator


def start(client: genai.Client, text: str) -> str:
    started: Any = client.interactions.create(model=MODEL, input=text, background=True)
    return str(started.id)


def follow(client: genai.Client, interaction_id: str, after: str | None = None) -> list[Any]:
    extra: Any = {"last_event_id": after} if after else {}
    return list(client.interactions.get(interaction_id, stream=True, **extra))


def test_a_stream_tells_all_from_the_beginning_to_the_end(client: genai.Client) -> None:
    events = follow(client, start(client, "later"))
    assert [event.event_type for event in events] == [
        "interaction.created",
        "interaction.status_update",
        "step.start",
        "step.delta",
        "step.delta",
        "step.stop",
        "interaction.completed",
    ]
    assert "".join(event.delta.text for event in events[3:5]) == "At last."
    assert events[-1].interaction.status == "completed"


def test_a_create_call_may_stream(client: genai.Client) -> None:
    stream: Any = client.interactions.create(model=MODEL, input="Hello", stream=True)
    events = list(stream)
    assert events[-1].interaction.status == "completed"
    text = "".join(event.delta.text for event in events if event.event_type == "step.delta")
    assert text == "You said: Hello"


def test_a_stream_goes_on_after_any_event_that_has_an_id(client: genai.Client) -> None:
    interaction = start(client, "everything")
    events = follow(client, interaction)
    for number, event in list(enumerate(events))[::4]:
        if event.event_id is not None:
            assert follow(client, interaction, event.event_id) == events[number + 1 :]


def test_an_unknown_event_id_is_refused(client: genai.Client) -> None:
    with pytest.raises(BadRequestError, match="no event"):
        follow(client, start(client, "Hello"), "evt_999")


def test_arguments_come_in_pieces(client: genai.Client) -> None:
    events = follow(client, start(client, "weather"))
    begun = next(event for event in events if event.event_type == "step.start")
    assert (begun.step.name, begun.step.arguments) == ("get", {})
    pieces = [event.delta.arguments for event in events if event.event_type == "step.delta"]
    assert len(pieces) > 2
    assert json.loads("".join(pieces)) == ARGUMENTS
    assert events[-1].interaction.status == "requires_action"


def test_a_failure_is_an_event_too(client: genai.Client) -> None:
    events = follow(client, start(client, "break"))
    assert [event.error.message for event in events if event.event_type == "error"] == ["It broke."]
    assert events[-1].interaction.status == "failed"


def test_every_step_and_delta_is_one_that_the_official_client_knows() -> None:
    step_adapter = TypeAdapter[Any](I.Step)
    delta_adapter = TypeAdapter[Any](stepdeltadata.StepDeltaData)
    for step in STEPS:
        assert step_adapter.validate_python(step).type == step["type"]
        for delta in deltas(step):
            assert delta_adapter.validate_python(delta).type == delta["type"]
    parsed = TypeAdapter[Any](I.Step).validate_python(OUTPUT)
    assert [one.type for one in parsed.content[0].annotations] == [
        one["type"] for one in ANNOTATIONS
    ]


def test_no_delta_that_the_official_client_knows_is_missing() -> None:
    call = {"type": "function_call", "id": "1", "name": "f", "arguments": {"a": 1}}
    result = {"type": "function_result", "call_id": "1", "result": "1"}
    sent = {delta["type"] for step in (*STEPS, call, result) for delta in deltas(step)}
    assert sent == set(stepdeltadata._STEP_DELTA_DATA_VARIANTS)  # noqa: SLF001 - their whole list


@pytest.mark.parametrize(
    ("text", "status"), [("budget", "budget_exceeded"), ("strange", "dreaming")]
)
def test_any_status_can_be_had_and_sends_no_event(
    client: genai.Client, gemini: Simulator, text: str, status: str
) -> None:
    interaction = start(client, text)
    events = follow(client, interaction)
    assert events[-1].interaction.status == status
    assert client.interactions.get(interaction).status == status
    assert not gemini.attempts


def test_unknown_steps_and_events_are_told_as_they_are(client: genai.Client) -> None:
    events = follow(client, start(client, "strange"))
    raw = [event.raw["event_type"] for event in events if hasattr(event, "raw")]
    assert raw == ["dream.seen"]
    (begun,) = [event for event in events if event.event_type == "step.start"]
    assert begun.step.raw["type"] == "telepathy_call"


def test_an_interaction_may_wait_in_another_status(client: genai.Client) -> None:
    assert client.interactions.get(start(client, "queued")).status == "queued"


def test_a_cut_stream_ends_without_a_word(client: genai.Client, gemini: Simulator) -> None:
    interaction = start(client, "everything")
    whole = follow(client, interaction)
    gemini.faults = Faults(stream_cut_after=5)
    cut = follow(client, interaction)
    assert [event for event in cut if not isinstance(event, str)] == whole[:5]


def test_a_cut_stream_can_be_put_together_again(client: genai.Client, gemini: Simulator) -> None:
    interaction = start(client, "everything")
    whole = follow(client, interaction)
    gemini.faults = Faults(stream_cut_after=7)
    seen: list[Any] = []
    while not seen or seen[-1].event_type != "interaction.completed":
        last = seen[-1].event_id if seen else None
        part = [one for one in follow(client, interaction, last) if not isinstance(one, str)]
        assert part, "no step forward"
        seen += part
        while seen[-1].event_id is None:  # such an event comes again
            seen.pop()
    assert seen == whole


def test_garbage_in_a_stream_comes_between_the_events(
    client: genai.Client, gemini: Simulator
) -> None:
    gemini.faults = Faults(stream_garbage_every=3)
    events = follow(client, start(client, "Hello"))
    whole = [event for event in events if not isinstance(event, str)]
    assert len(events) - len(whole) == 3
    assert whole[-1].event_type == "interaction.completed"


def test_lifecycle_events_may_have_names_of_their_own(
    client: genai.Client, gemini: Simulator
) -> None:
    gemini.variants = Variants(stream_lifecycle="named")
    events = follow(client, start(client, "weather"))
    raw = [event.raw["event_type"] for event in events if hasattr(event, "raw")]
    assert raw == ["interaction.in_progress", "interaction.requires_action"]


def test_an_event_without_event_type_looks_like_an_error(
    client: genai.Client, gemini: Simulator
) -> None:
    gemini.variants = Variants(stream_key="type")
    assert {event.event_type for event in follow(client, start(client, "Hello"))} == {"error"}


def test_a_stream_of_a_deleted_interaction_ends(client: genai.Client) -> None:
    interaction = start(client, "never")
    seen: list[Any] = []
    first = threading.Event()

    def read() -> None:
        for event in client.interactions.get(interaction, stream=True):
            seen.append(event)
            first.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert first.wait(60)
    client.interactions.delete(interaction)
    reader.join(60)
    assert not reader.is_alive()
    assert seen[0].event_type == "interaction.created"
