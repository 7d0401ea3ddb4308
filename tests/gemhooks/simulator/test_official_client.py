"""Every call of the official client that the simulator answers, and its own strict parsing.

The client's own reading of answers is lenient, so each answer is also put through its models.
"""

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import urllib3
from google import genai
from google.genai import interactions as I  # noqa: N812 - as Google's samples do
from google.genai import types, webhooks
from pydantic import TypeAdapter

from gemhooks.simulator import Script, Show, Simulator, Variants
from gemhooks.simulator.samples import STEPS
from tests.gemhooks.simulator.conftest import SCRIPTS, Listener

EVENTS: list[Any] = ["interaction.completed"]
MODEL = "gemini-3.8-flash"
ROWS: Any = [{"contents": [{"parts": [{"text": "one"}]}]}]
TEXT: Any = {"mime_type": "text/plain"}
Call = Callable[[genai.Client], Any]


@pytest.fixture
def gemini() -> Iterator[Simulator]:
    scripts = (*SCRIPTS, Script(when="everything", turns=(Show(samples=True),)))
    with Simulator(delay=0.0, retry_base=0.01, scripts=scripts) as simulator:
        yield simulator


def hook(client: genai.Client) -> str:
    made = client.webhooks.create(uri="https://example.com/", subscribed_events=EVENTS)
    return made.id or ""


def interaction(client: genai.Client, text: str = "Hi", **more: Any) -> str:
    made: Any = client.interactions.create(model=MODEL, input=text, **more)
    return str(made.id)


def batch(client: genai.Client) -> str:
    return client.batches.create(model=MODEL, src=ROWS).name or ""


def file(client: genai.Client) -> str:
    return client.files.upload(file=io.BytesIO(b"hello"), config=TEXT).name or ""


def continued(client: genai.Client) -> Any:
    first: Any = client.interactions.create(model=MODEL, input="weather")
    calls = [step for step in first.steps if step.type == "function_call"]
    results: Any = [
        {"type": "function_result", "call_id": call.id, "result": {"ok": True}} for call in calls
    ]
    return client.interactions.create(model=MODEL, input=results, previous_interaction_id=first.id)


TABLE: dict[str, tuple[Call, Callable[[Any], object]]] = {
    "webhooks.create": (
        lambda c: c.webhooks.create(uri="https://a.example/", subscribed_events=EVENTS, name="n"),
        lambda made: made.new_signing_secret.startswith("whsec_"),
    ),
    "webhooks.get": (lambda c: c.webhooks.get(id=hook(c)), lambda seen: seen.state == "enabled"),
    "webhooks.list": (
        lambda c: (hook(c), c.webhooks.list(page_size=1))[1],
        lambda page: len(page.webhooks) == 1,
    ),
    "webhooks.update": (
        lambda c: c.webhooks.update(id=hook(c), update_mask="name", name="new"),
        lambda seen: seen.name == "new",
    ),
    "webhooks.delete": (lambda c: c.webhooks.delete(id=hook(c)), lambda gone: gone is not None),
    "webhooks.ping": (lambda c: c.webhooks.ping(id=hook(c)), lambda sent: sent is not None),
    "webhooks.rotate_signing_secret": (
        lambda c: c.webhooks.rotate_signing_secret(id=hook(c)),
        lambda rotated: rotated.secret.startswith("whsec_"),
    ),
    "interactions.create": (
        lambda c: c.interactions.create(model=MODEL, input="Hi"),
        lambda made: made.output_text == "You said: Hi",
    ),
    "interactions.create of an agent": (
        lambda c: c.interactions.create(agent="deep-research", input="Hi", background=True),
        lambda made: made.status == "in_progress",
    ),
    "interactions.create with stream": (
        lambda c: list(c.interactions.create(model=MODEL, input="Hi", stream=True)),
        lambda events: events[-1].event_type == "interaction.completed",
    ),
    "interactions.create with results": (continued, lambda made: made.status == "completed"),
    "interactions.get": (
        lambda c: c.interactions.get(interaction(c)),
        lambda seen: [step.type for step in seen.steps] == ["user_input", "model_output"],
    ),
    "interactions.get with stream": (
        lambda c: list(c.interactions.get(interaction(c), stream=True)),
        lambda events: events[0].event_type == "interaction.created",
    ),
    "interactions.cancel": (
        lambda c: c.interactions.cancel(interaction(c, "slowly", background=True)),
        lambda seen: seen.status == "cancelled",
    ),
    "interactions.delete": (
        lambda c: c.interactions.delete(interaction(c)),
        lambda gone: gone is None,
    ),
    "batches.create": (
        lambda c: c.batches.create(model=MODEL, src=ROWS),
        lambda made: made.name.startswith("batches/"),
    ),
    "batches.create by file": (
        lambda c: c.batches.create(model=MODEL, src=file(c)),
        lambda made: made.state == types.JobState.JOB_STATE_PENDING,
    ),
    "batches.get": (lambda c: c.batches.get(name=batch(c)), lambda seen: seen.model is not None),
    "batches.list": (
        lambda c: (batch(c), list(c.batches.list()))[1],
        lambda listed: len(listed) == 1,
    ),
    "batches.delete": (lambda c: c.batches.delete(name=batch(c)), lambda gone: gone is not None),
    "files.upload": (
        lambda c: c.files.upload(file=io.BytesIO(b"hello"), config=TEXT),
        lambda made: made.size_bytes == 5,
    ),
    "files.get": (lambda c: c.files.get(name=file(c)), lambda seen: seen.state == "ACTIVE"),
    "files.list": (
        lambda c: (file(c), list(c.files.list()))[1],
        lambda listed: len(listed) == 1,
    ),
    "files.delete": (lambda c: c.files.delete(name=file(c)), lambda gone: gone is not None),
}


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_the_official_client_is_answered(
    gemini: Simulator, connect: Any, name: str, version: str
) -> None:
    call, is_right = TABLE[name]
    assert is_right(call(connect(gemini.url, version)))


def test_the_table_knows_every_method_of_the_official_client() -> None:
    client = genai.Client(api_key="any")
    wanted = {
        f"{resource}.{method}"
        for resource in ("webhooks", "interactions", "batches", "files")
        for method in dir(getattr(client, resource))
        if not method.startswith("_") and callable(getattr(getattr(client, resource), method))
    }
    client.close()
    elsewhere = {
        "batches.cancel",  # test_batches
        "batches.create_embeddings",
        "files.download",  # test_files
    }
    beyond = {
        "files.register_files",  # Google Cloud's
        "interactions.connect",  # live connections
        "interactions.do_request",  # no calls of the API, but how they are made
        "webhooks.do_request",
    }
    known = {name.split(" ", maxsplit=1)[0] for name in TABLE}
    assert {name for name in wanted if "with_" not in name} - elsewhere - beyond == known


def test_the_asynchronous_client_is_answered_too(gemini: Simulator) -> None:
    async def talk() -> list[str]:
        options = types.HttpOptions(base_url=gemini.url)
        client = genai.Client(api_key="any", http_options=options).aio
        made: Any = await client.interactions.create(model=MODEL, input="Hi")
        stream: Any = await client.interactions.get(made.id, stream=True)
        events = [event.event_type async for event in stream]
        await client.aclose()
        return [made.status, events[-1]]

    assert asyncio.run(talk()) == ["completed", "interaction.completed"]


def raw(gemini: Simulator, path: str) -> Any:
    return urllib3.request("GET", f"{gemini.url}/v1/{path}?key=any").json()


@pytest.mark.parametrize("text", ["Hi", "weather", "break", "everything"])
def test_interactions_pass_the_clients_strict_models(
    gemini: Simulator, client: genai.Client, text: str
) -> None:
    found = raw(gemini, f"interactions/{interaction(client, text)}")
    parsed = I.Interaction.model_validate(found)
    assert not any(getattr(step, "is_unknown", False) for step in parsed.steps or [])
    again = json.loads(parsed.model_dump_json(by_alias=True, exclude_unset=True))
    assert {name: again[name] for name in found} == found


def test_every_event_of_a_stream_passes_the_clients_strict_models(
    gemini: Simulator, client: genai.Client
) -> None:
    url = f"{gemini.url}/v1/interactions/{interaction(client, 'everything')}"
    text = urllib3.request("GET", f"{url}?stream=true&key=any").data.decode()
    *blocks, done = text.strip().split("\n\n")
    assert done == "event: done\ndata: [DONE]"
    adapter = TypeAdapter[Any](I.InteractionSSEEvent)
    for block in blocks:
        name, data = block.split("\n")
        event = adapter.validate_python(json.loads(data.removeprefix("data: ")))
        assert event.event_type == name.removeprefix("event: ")
        assert not getattr(event, "is_unknown", False)
    assert len(blocks) > 3 * len(STEPS)


def test_webhooks_pass_the_clients_strict_models(gemini: Simulator, client: genai.Client) -> None:
    gemini.variants = Variants(webhook_times=True)
    client.webhooks.rotate_signing_secret(id=hook(client))
    listed = webhooks.WebhookListResponse.model_validate(raw(gemini, "webhooks"))
    (seen,) = listed.webhooks or []
    assert seen.create_time
    assert (seen.signing_secrets or [])[1].expire_time


def test_an_announced_result_is_what_the_client_fetches(
    client: genai.Client, listener: Listener
) -> None:
    client.webhooks.create(uri=listener.url, subscribed_events=["batch.succeeded"])
    name = batch(client)
    event = json.loads(listener.wait(1)[0].body)
    assert event["data"]["id"] == name
    assert client.batches.get(name=name).done
