"""Interactions from the first call to the last event, driven by the official client."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from google import genai
from google.genai import interactions as I  # noqa: N812 - as Google's samples do
from google.genai._interactions_errors import BadRequestError, NotFoundError
from standardwebhooks import Webhook as Oracle

from gemhooks.simulator import Say, Script, Show, Simulator
from tests.gemhooks.simulator.conftest import Listener, Received

MODEL = "gemini-3.8-flash"


def start(client: genai.Client, text: str, listener: Listener | None = None) -> I.Interaction:
    config: dict[str, Any] = {}
    if listener is not None:
        config = {"webhook_config": {"uris": [listener.url], "user_metadata": {"job": "7"}}}
    started = client.interactions.create(model=MODEL, input=text, background=True, **config)
    assert isinstance(started, I.Interaction)
    return started


def answer(client: genai.Client, waiting: I.Interaction, calls: list[Any]) -> I.Interaction:
    results: list[Any] = [
        {"type": "function_result", "call_id": call.id, "name": call.name, "result": {"ok": True}}
        for call in calls
    ]
    answered = client.interactions.create(
        model=MODEL, input=results, background=True, previous_interaction_id=waiting.id
    )
    assert isinstance(answered, I.Interaction)
    return answered


def event_in(received: Received) -> dict[str, Any]:
    event = json.loads(received.body)
    assert isinstance(event, dict)
    return event


def get(client: genai.Client, interaction: I.Interaction) -> I.Interaction:
    return client.interactions.get(interaction.id or "")


def waiting_for_functions(
    client: genai.Client, listener: Listener
) -> tuple[I.Interaction, list[Any]]:
    started = start(client, "What is the weather?", listener)
    listener.wait(1)
    seen = get(client, started)
    return seen, [step for step in seen.steps or [] if step.type == "function_call"]


def test_a_background_interaction_starts_in_progress(client: genai.Client) -> None:
    started = start(client, "slowly")
    assert started.status == "in_progress"
    assert started.id
    assert re.fullmatch(r"v1_[\w-]{66}", started.id)
    assert not started.steps


def test_a_completed_interaction_is_announced_and_can_be_fetched(
    client: genai.Client, gemini: Simulator, listener: Listener
) -> None:
    started = start(client, "Hello", listener)
    (received,) = listener.wait(1)
    event = event_in(received)
    assert set(event) == {"type", "version", "timestamp", "data"}
    assert (event["type"], event["version"]) == ("interaction.completed", "v1")
    assert event["data"] == {"id": started.id, "user_metadata": {"job": "7"}}
    seen = get(client, started)
    assert (seen.status, seen.output_text) == ("completed", "You said: Hello")
    assert [step.type for step in seen.steps or []] == ["user_input", "model_output"]
    assert seen.usage
    assert seen.usage.total_tokens == 4


def test_registered_webhooks_get_what_they_subscribed_to(
    client: genai.Client, gemini: Simulator, listener: Listener
) -> None:
    subscribed = client.webhooks.create(
        uri=listener.url, subscribed_events=["interaction.completed"]
    )
    client.webhooks.create(uri=listener.url, subscribed_events=["interaction.failed"])
    start(client, "Hello")
    (received,) = listener.wait(1)
    Oracle(subscribed.new_signing_secret or "").verify(received.body, dict(received.headers))
    assert gemini.wait_for(lambda attempts: len(attempts) == 1, timeout=60)


def test_uris_of_the_request_replace_the_registered_webhooks(
    client: genai.Client, gemini: Simulator, listener: Listener
) -> None:
    client.webhooks.create(uri="http://127.0.0.1:1/", subscribed_events=["interaction.completed"])
    start(client, "Hello", listener)
    assert gemini.wait_for(lambda attempts: len(attempts) > 0, timeout=60)
    assert {attempt.uri for attempt in gemini.attempts} == {listener.url}


def test_a_failed_interaction_says_why(client: genai.Client, listener: Listener) -> None:
    started = start(client, "break", listener)
    data = event_in(listener.wait(1)[0])["data"]
    assert (data["error_code"], data["error_message"]) == (13, "It broke.")
    seen = get(client, started)
    assert seen.status == "failed"
    assert seen.errors
    assert seen.errors[0].message == "It broke."


def test_a_scripted_question_waits_for_its_functions(
    client: genai.Client, listener: Listener
) -> None:
    seen, calls = waiting_for_functions(client, listener)
    assert event_in(listener.wait(1)[0])["type"] == "interaction.requires_action"
    assert seen.status == "requires_action"
    assert [(call.name, call.arguments) for call in calls] == [
        ("get_weather", {"city": "Paris"}),
        ("get_time", {"city": "Paris"}),
    ]


def test_answers_to_all_calls_complete_the_conversation(
    client: genai.Client, gemini: Simulator, listener: Listener
) -> None:
    waiting, calls = waiting_for_functions(client, listener)
    client.webhooks.create(uri=listener.url, subscribed_events=["interaction.completed"])
    answered = answer(client, waiting, calls)
    assert event_in(listener.wait(2)[1])["data"] == {"id": answered.id}
    text = get(client, answered).output_text
    assert text == 'Got {"get_weather": {"ok": true}, "get_time": {"ok": true}}.'


def test_a_call_left_unanswered_is_refused(client: genai.Client, listener: Listener) -> None:
    waiting, calls = waiting_for_functions(client, listener)
    with pytest.raises(BadRequestError, match=calls[1].id) as raised:
        answer(client, waiting, calls[:1])
    assert raised.value.response.json()["error"]["status"] == "INVALID_ARGUMENT"


def test_an_interaction_in_progress_cannot_be_continued(client: genai.Client) -> None:
    running = start(client, "slowly")
    with pytest.raises(BadRequestError, match="in progress"):
        client.interactions.create(
            model=MODEL, input="And?", background=True, previous_interaction_id=running.id
        )


def test_a_cancelled_interaction_is_announced(client: genai.Client, listener: Listener) -> None:
    running = start(client, "slowly", listener)
    client.interactions.cancel(running.id or "")
    assert event_in(listener.wait(1)[0])["type"] == "interaction.cancelled"
    assert get(client, running).status == "cancelled"


def test_a_deleted_interaction_is_not_found(client: genai.Client) -> None:
    running = start(client, "slowly")
    client.interactions.delete(running.id or "")
    with pytest.raises(NotFoundError):
        get(client, running)


def test_webhook_config_needs_background(client: genai.Client, listener: Listener) -> None:
    config: Any = {"uris": [listener.url]}
    with pytest.raises(BadRequestError, match="background"):
        client.interactions.create(model=MODEL, input="Hello", webhook_config=config)


def test_an_interaction_in_the_foreground_ends_with_the_call(client: genai.Client) -> None:
    answered = client.interactions.create(model=MODEL, input="Hello")
    assert isinstance(answered, I.Interaction)
    assert (answered.status, answered.output_text) == ("completed", "You said: Hello")


def test_both_versions_of_the_api_share_one_state(
    client: genai.Client, gemini: Simulator, connect: Callable[..., genai.Client]
) -> None:
    started = start(client, "slowly")
    assert get(connect(gemini.url, "v1beta"), started).id == started.id


def test_a_get_may_be_behind_the_event(
    client: genai.Client, gemini: Simulator, listener: Listener
) -> None:
    gemini.scripts = [Script(when="", turns=(Say(text="Done.", lag=4.0),))]
    started = start(client, "Hello", listener)
    assert event_in(listener.wait(1)[0])["type"] == "interaction.completed"
    assert get(client, started).status == "in_progress"
    *_, last = client.interactions.get(started.id or "", stream=True)
    assert (last.event_type, get(client, started).output_text) == (
        "interaction.completed",
        "Done.",
    )
    assert len(listener.wait(1)) == 1


def test_an_event_may_say_something_else_than_the_interaction(
    client: genai.Client, gemini: Simulator, listener: Listener
) -> None:
    turn = Show(status="budget_exceeded", announce="interaction.completed")
    gemini.scripts = [Script(when="", turns=(turn,))]
    started = start(client, "Hello", listener)
    assert event_in(listener.wait(1)[0])["type"] == "interaction.completed"
    assert get(client, started).status == "budget_exceeded"


def test_only_calls_that_wait_are_to_be_answered(
    connect: Callable[[str], genai.Client], listener: Listener
) -> None:
    """Not those with a result, nor what is no call: it has no id to be answered by."""
    call = {"type": "function_call", "name": "f", "arguments": {}}
    steps = (
        {**call, "id": "a"},
        {"type": "function_result", "call_id": "a", "result": "done"},
        call,
        {**call, "id": "b"},
    )
    turns = (Show(status="requires_action", steps=steps), Say(text="{results}"))
    with Simulator(delay=0.01, scripts=[Script(when="", turns=turns)]) as gemini:
        client = connect(gemini.url)
        waiting = start(client, "Go.", listener)
        listener.wait(1)
        results: list[Any] = [{"type": "function_result", "call_id": "b", "result": "yes"}]
        answered = client.interactions.create(
            model=MODEL, input=results, background=True, previous_interaction_id=waiting.id
        )

    assert isinstance(answered, I.Interaction)
