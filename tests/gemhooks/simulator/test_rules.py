"""The API misbehaves as it is told to, and the official client raises its own types."""

import io
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3
from google import genai
from google.genai import _interactions_errors as gaos
from google.genai import errors

from gemhooks.simulator import BatchPlan, Faults, Rule, Simulator
from gemhooks.simulator.faults import Dice
from gemhooks.simulator.rulebook import Rulebook
from tests.services.waiting import eventually

ONCE: Any = {"attempts": 1}


@pytest.fixture
def gemini() -> Iterator[Simulator]:
    plans = [BatchPlan(rows=1000, row_bytes=1000)]
    with Simulator(delay=0.0, retry_base=0.01, batches=plans) as simulator:
        yield simulator


def misbehave(gemini: Simulator, **rule: Any) -> None:
    gemini.faults = Faults(rules=(Rule(**rule),))


@pytest.mark.parametrize(
    ("status", "ours", "name"),
    [
        (400, gaos.BadRequestError, "INVALID_ARGUMENT"),
        (401, gaos.AuthenticationError, "UNAUTHENTICATED"),
        (403, gaos.PermissionDeniedError, "PERMISSION_DENIED"),
        (404, gaos.NotFoundError, "NOT_FOUND"),
        (409, gaos.ConflictError, "ALREADY_EXISTS"),
        (429, gaos.RateLimitError, "RESOURCE_EXHAUSTED"),
        (500, gaos.InternalServerError, "INTERNAL"),
        (503, gaos.InternalServerError, "UNAVAILABLE"),
    ],
)
def test_every_error_is_of_the_clients_own_type(
    gemini: Simulator, connect: Any, status: int, ours: type[Exception], name: str
) -> None:
    client: genai.Client = connect(gemini.url, retry_options=ONCE)
    misbehave(gemini, status=status)
    with pytest.raises(ours) as raised:
        client.interactions.get("v1_x")
    error: Any = raised.value
    assert error.body["error"]["status"] == name
    with pytest.raises(errors.APIError) as also:
        client.batches.get(name="batches/x")
    assert (also.value.code, also.value.status) == (status, name)


def test_a_retry_after_is_sent_in_either_form(gemini: Simulator) -> None:
    for form in (7, "Fri, 31 Dec 2027 23:59:59 GMT"):
        misbehave(gemini, status=429, retry_after=form)
        answer = urllib3.request("GET", f"{gemini.url}/v1/webhooks?key=k", retries=False)
        assert answer.headers["retry-after"] == str(form)


def test_a_storm_ends(gemini: Simulator, client: genai.Client) -> None:
    misbehave(gemini, when="GET /v1/batches", skip=1, first=2, status=503)
    outcomes = []
    for _ in range(5):
        try:
            outcomes.append(len(list(client.batches.list())))
        except errors.ServerError as error:
            outcomes.append(error.code)
    assert outcomes == [0, 503, 503, 0, 0]


@pytest.mark.parametrize("drop", ["before", "after"])
def test_a_dropped_answer_leaves_open_what_was_done(gemini: Simulator, drop: str) -> None:
    misbehave(gemini, when="POST /v1/interactions", drop=drop)
    body = {"model": "m", "input": "Hi"}
    url = f"{gemini.url}/v1/interactions?key=k"
    with pytest.raises(urllib3.exceptions.ProtocolError):
        urllib3.request("POST", url, json=body, retries=False)
    assert len(gemini.interactions) == (1 if drop == "after" else 0)


def test_a_download_breaks_off_in_the_middle_and_goes_on_from_there(
    gemini: Simulator, client: genai.Client
) -> None:
    source: Any = "files/any"
    batch = client.batches.create(model="m", src=source)
    eventually(lambda: all(not one.is_open for one in gemini.batches))
    bare = (batch.name or "").removeprefix("batches/")
    url = f"{gemini.url}/v1/files/batch-{bare}:download?alt=media&key=k"
    misbehave(gemini, when=":download", first=1, drop="middle")
    answer = urllib3.request("GET", url, preload_content=False, retries=False)
    read = b"".join(until_it_breaks(answer))
    assert 0 < len(read) <= 500_000
    rest = urllib3.request("GET", url, headers={"Range": f"bytes={len(read)}-"})
    assert rest.status == 206
    assert len((read + rest.data).splitlines()) == 1000


def test_an_answer_may_stop_in_the_middle_and_stay_silent(gemini: Simulator) -> None:
    misbehave(gemini, drop="stall")
    url = f"{gemini.url}/v1/interactions/x?key=k"
    with pytest.raises(urllib3.exceptions.ReadTimeoutError):
        urllib3.request("GET", url, timeout=0.2, retries=False)


def test_an_answer_may_be_slow(gemini: Simulator, client: genai.Client) -> None:
    made: Any = client.interactions.create(model="m", input="Hi")
    misbehave(gemini, throttle=2000)
    started = time.monotonic()
    answer = urllib3.request("GET", f"{gemini.url}/v1/interactions/{made.id}?key=k")
    assert answer.json()["id"] == made.id
    assert time.monotonic() - started >= len(answer.data) / 2000


def test_a_rule_may_look_into_the_request(gemini: Simulator, connect: Any) -> None:
    client: genai.Client = connect(gemini.url, retry_options=ONCE)
    misbehave(gemini, when="POST", containing='"bad"', status=500)
    client.interactions.create(model="m", input="good")
    with pytest.raises(gaos.InternalServerError):
        client.interactions.create(model="m", input="bad")


def test_an_answer_may_carry_the_id_that_was_asked_for(gemini: Simulator) -> None:
    misbehave(gemini, body='{"id": "{id}", "steps": [null]}')
    answer = urllib3.request("GET", f"{gemini.url}/v1/interactions/v1_x?key=k")
    assert answer.json() == {"id": "v1_x", "steps": [None]}


@pytest.mark.parametrize("body", ["null", "[]", '""', "{}", '{"id": "cut'])
def test_an_answer_may_be_anything(gemini: Simulator, body: str) -> None:
    misbehave(gemini, when="GET /v1/interactions", body=body)
    answer = urllib3.request("GET", f"{gemini.url}/v1/interactions/v1_x?key=k")
    assert (answer.status, answer.data) == (200, body.encode())


def test_a_redirect_points_where_it_is_told(gemini: Simulator) -> None:
    misbehave(gemini, status=302, location="http://127.0.0.1:1/?key=secret")
    url = f"{gemini.url}/v1/files/x:download?alt=media&key=k"
    answer = urllib3.request("GET", url, redirect=False)
    assert (answer.status, answer.headers["location"]) == (302, "http://127.0.0.1:1/?key=secret")


def test_a_slow_answer_is_longer_than_the_client_waits(gemini: Simulator) -> None:
    misbehave(gemini, delay=30)
    with pytest.raises(urllib3.exceptions.ReadTimeoutError):
        urllib3.request("GET", f"{gemini.url}/v1/webhooks?key=k", timeout=0.2, retries=False)


def test_what_steers_the_simulator_always_behaves(gemini: Simulator) -> None:
    misbehave(gemini, status=500)
    assert urllib3.request("GET", f"{gemini.url}/livez").status == 200
    assert urllib3.request("PUT", f"{gemini.url}/control/faults", json={}).status == 200
    assert urllib3.request("GET", f"{gemini.url}/v1/webhooks?key=k").status == 200


def test_a_resource_may_be_missing_for_some_time(gemini: Simulator, client: genai.Client) -> None:
    gemini.faults = Faults(not_found_for=600)
    made: Any = client.interactions.create(model="m", input="Hi")
    with pytest.raises(gaos.NotFoundError):
        client.interactions.get(made.id)
    gemini.faults = Faults(not_found_for=0.1)
    eventually(lambda: exists(client, made.id))


def exists(client: genai.Client, interaction_id: str) -> bool:
    try:
        client.interactions.get(interaction_id)
    except gaos.NotFoundError:
        return False
    return True


def test_an_expired_file_is_gone(gemini: Simulator, client: genai.Client) -> None:
    uploaded = upload(client)
    name = uploaded.removeprefix("files/")
    urllib3.request("POST", f"{gemini.url}/control/files/{name}:expire")
    with pytest.raises(errors.ClientError):
        client.files.get(name=uploaded)


def upload(client: genai.Client) -> str:
    uploaded = client.files.upload(file=io.BytesIO(b"x"), config={"mime_type": "text/plain"})
    return uploaded.name or ""


def test_unknown_parameters_are_refused_with_a_hint(gemini: Simulator) -> None:
    body = {"uri": "https://example.com/", "subscribedEvents": ["batch.failed"]}
    answer = urllib3.request("POST", f"{gemini.url}/v1/webhooks?key=k", json=body)
    assert answer.status == 400
    assert "subscribed_events" in answer.json()["error"]["message"]


def test_the_same_seed_hits_the_same_requests() -> None:
    rules = (Rule(rate=0.3, status=500), Rule(when="GET", rate=0.5, status=503))
    first, second = Rulebook(rules, 7), Rulebook(rules, 7)
    lines = ["GET /v1/x", "POST /v1/x"] * 50
    assert [first.hit(line) for line in lines] == [second.hit(line) for line in lines]


def test_rates_are_rates() -> None:
    dice = Dice(Faults(lost_rate=0.3, seed=1))
    lost = sum(dice.copies()[0].kind == "lost" for _ in range(1000))
    assert 250 < lost < 350


def test_faults_can_be_read_and_set_over_http(gemini: Simulator) -> None:
    wanted = {"lost_rate": 0.5, "rules": [{"when": "GET", "status": 503}]}
    put = urllib3.request("PUT", f"{gemini.url}/control/faults", json=wanted)
    got = urllib3.request("GET", f"{gemini.url}/control/faults")
    assert json.loads(put.data) == json.loads(got.data)
    assert gemini.faults == Faults(lost_rate=0.5, rules=(Rule(when="GET", status=503),))


def until_it_breaks(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    try:
        yield from answer.stream(1000)
    except urllib3.exceptions.ProtocolError:
        return
    pytest.fail("it did not break")
