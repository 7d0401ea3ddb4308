"""Videos: started by REST, looked at and downloaded by the official client."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3
from google import genai
from google.genai import types

from gemhooks import events
from gemhooks.simulator import Simulator, Variants, VideoPlan
from tests.gemhooks.simulator.conftest import Listener
from tests.services.waiting import eventually

PLANS = (
    VideoPlan(when="filtered", filtered=True),
    VideoPlan(when="broken", outcome="failed", code=13, message="No."),
    VideoPlan(when="stuck", outcome="stuck"),
    VideoPlan(when="elsewhere", uri="gs://bucket/x.mp4"),
    VideoPlan(when="two", samples=2, bytes=70_000),
)


@pytest.fixture
def gemini() -> Iterator[Simulator]:
    with Simulator(delay=0.01, retry_base=0.01, videos=PLANS) as simulator:
        yield simulator


@pytest.fixture
def http() -> Iterator[urllib3.PoolManager]:
    with urllib3.PoolManager(headers={"x-goog-api-key": "any"}) as http:
        yield http


def start(gemini: Simulator, http: urllib3.PoolManager, prompt: str, listener: Listener) -> str:
    url = f"{gemini.url}/v1beta/models/veo-3.1:predictLongRunning"
    body = {"instances": [{"prompt": prompt}], "webhookConfig": {"uris": [listener.url]}}
    answer = http.request("POST", url, json=body)
    assert answer.status == 200, answer.data
    return str(answer.json()["name"])


def get(client: genai.Client, name: str) -> types.GenerateVideosOperation:
    asked = types.GenerateVideosOperation.model_validate({"name": name})
    return client.operations.get(asked)


def test_a_generated_video_is_announced_and_downloaded(
    client: genai.Client, gemini: Simulator, http: urllib3.PoolManager, listener: Listener
) -> None:
    name = start(gemini, http, "a two headed cat", listener)
    event = json.loads(listener.wait(1)[0].body)
    assert event["type"] == "video.generated"
    seen = get(client, name)
    assert seen.done
    assert seen.response
    uris = [made.video.uri for made in seen.response.generated_videos or [] if made.video]
    file_name = event["data"]["file_name"]
    assert event["data"] == {"id": name, "output_file_uri": uris[0], "file_name": file_name}
    film = http.request("GET", uris[1] or "").data
    assert (len(film), film[4:12]) == (70_000, b"ftypmp42")
    assert client.files.download(file=file_name) == http.request("GET", uris[0] or "").data


def test_the_official_client_downloads_a_video_by_googles_uri(
    client: genai.Client, gemini: Simulator, http: urllib3.PoolManager, listener: Listener
) -> None:
    gemini.variants = Variants(base_uri="https://generativelanguage.googleapis.com")
    name = start(gemini, http, "a cat", listener)
    listener.wait(1)
    response = get(client, name).response
    assert response
    assert response.generated_videos
    assert len(client.files.download(file=response.generated_videos[0])) == 100_000


def test_a_video_may_be_anywhere(
    client: genai.Client, gemini: Simulator, http: urllib3.PoolManager, listener: Listener
) -> None:
    name = start(gemini, http, "elsewhere", listener)
    event = json.loads(listener.wait(1)[0].body)
    assert event["data"]["output_file_uri"] == "gs://bucket/x.mp4"
    response = get(client, name).response
    assert response
    uris = [made.video.uri for made in response.generated_videos or [] if made.video]
    assert uris == ["gs://bucket/x.mp4"]


@pytest.mark.parametrize("prompt", ["filtered", "broken", "stuck"])
def test_a_video_that_is_not_there_sends_no_event(
    client: genai.Client,
    gemini: Simulator,
    http: urllib3.PoolManager,
    listener: Listener,
    prompt: str,
) -> None:
    name = start(gemini, http, prompt, listener)
    start(gemini, http, "a cat", listener)
    listener.wait(1)
    if prompt != "stuck":
        eventually(lambda: get(client, name).done, why="it ended")
    assert len(gemini.attempts) <= 1
    seen = get(client, name)
    assert bool(seen.done) is (prompt != "stuck")
    assert (seen.error or {}).get("code") == (13 if prompt == "broken" else None)
    filtered = seen.response.rai_media_filtered_count if seen.response else None
    assert filtered == (1 if prompt == "filtered" else None)


@pytest.mark.parametrize(
    "fields",
    [
        "output_file_uri+file_name",
        "output_file_uri",
        "video_uri",
        "uri",
        "file_name",
        "file_uri",
        "absent",
    ],
)
@pytest.mark.parametrize("id_form", ["operation", "bare"])
def test_our_own_events_read_every_form_of_a_video(
    gemini: Simulator,
    http: urllib3.PoolManager,
    listener: Listener,
    fields: Any,
    id_form: Any,
) -> None:
    gemini.variants = Variants(video_fields=fields, video_id=id_form)
    name = start(gemini, http, "a cat", listener)
    body = listener.wait(1)[0].body
    assert set(json.loads(body)["data"]) == {"id", *fields.split("+")} - {"absent"}
    event = events.parse(body)
    assert isinstance(event, events.VideoGenerated)
    assert event.data.id == (name if id_form == "operation" else name.rpartition("/")[2])
    pointers = (event.data.output_file_uri, event.data.file_name)
    assert any(pointers) is (fields != "absent")
