"""Retries and misbehaviour, steered over HTTP."""

from collections.abc import Iterator
from dataclasses import astuple
from typing import Any

import pytest
import urllib3
from google import genai
from google.genai._interactions_errors import NotFoundError
from standardwebhooks import Webhook as Oracle
from standardwebhooks import WebhookVerificationError

from gemhooks.simulator import Faults, Simulator
from gemhooks.simulator.deliveries import Patience
from gemhooks.simulator.faults import Dice, Kind
from tests.gemhooks.simulator.conftest import Listener


class Control:
    def __init__(self, url: str, http: urllib3.PoolManager) -> None:
        self._url = url
        self._http = http

    def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._http.request(method, self._url + path, json=body)
        assert answer.status == 200, answer.data
        return answer.json()

    def emit(self, listener: Listener, count: int = 1) -> list[str]:
        event = {"type": "t", "data": {"id": "1"}, "uris": [listener.url], "count": count}
        ids = self.call("POST", "/control/events", event)["ids"]
        assert isinstance(ids, list)
        return ids

    def refused(self, path: str, body: Any) -> int:
        return self._http.request("PUT", self._url + path, json=body).status


@pytest.fixture
def control(gemini: Simulator) -> Iterator[Control]:
    with urllib3.PoolManager() as http:
        yield Control(gemini.url, http)


def test_a_refused_delivery_is_tried_again_with_the_same_id(
    gemini: Simulator, control: Control, listener: Listener
) -> None:
    listener.statuses = [503, 302]
    (webhook_id,) = control.emit(listener)
    received = listener.wait(3)
    assert {request.headers["webhook-id"] for request in received} == {webhook_id}
    assert len({request.body for request in received}) == 1
    for request in received:
        Oracle(gemini.secret).verify(request.body, dict(request.headers))
    assert gemini.wait_for(lambda attempts: len(attempts) == 3, timeout=60)
    assert [attempt.status for attempt in gemini.attempts] == [503, 302, 204]


def test_each_attempt_has_a_timestamp_of_its_own(
    control: Control, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter(range(2_000_000_000, 2_000_000_100))
    monkeypatch.setattr("gemhooks.simulator.deliveries.unix_time", lambda: next(seconds))
    listener.statuses = [500]
    control.emit(listener)
    first, second = (int(request.headers["webhook-timestamp"]) for request in listener.wait(2))
    assert first < second


def test_attempts_end(listener: Listener) -> None:
    listener.statuses = [500] * 5
    with (
        urllib3.PoolManager() as http,
        Simulator(retry_base=0.001, max_attempts=3) as gemini,
    ):
        Control(gemini.url, http).emit(listener)
        assert gemini.wait_for(lambda attempts: len(attempts) == 3, timeout=60)
        assert not gemini.wait_for(lambda attempts: len(attempts) > 3, timeout=0.1)


def test_pauses_double_up_to_a_minute() -> None:
    patience = Patience(retry_base=0.5)
    assert [patience.pause(number) for number in (1, 2, 3, 20)] == [0.5, 1.0, 2.0, 60.0]


def test_an_unreachable_listener_is_an_attempt_without_status(gemini: Simulator) -> None:
    with urllib3.PoolManager() as http:
        event = {"type": "t", "data": {}, "uris": ["http://127.0.0.1:1/"]}
        Control(gemini.url, http).call("POST", "/control/events", event)
    assert gemini.wait_for(lambda attempts: len(attempts) > 1, timeout=60)
    assert gemini.attempts[0].status is None


def test_attempts_can_be_listed_over_http(
    gemini: Simulator, control: Control, listener: Listener
) -> None:
    (webhook_id,) = control.emit(listener)
    assert gemini.wait_for(lambda attempts: len(attempts) == 1, timeout=60)
    (listed,) = control.call("GET", "/control/deliveries")["deliveries"]
    assert (listed["id"], listed["type"], listed["status"]) == (webhook_id, "t", 204)
    assert control.call("GET", "/livez") == {"status": "ok"}


def test_a_duplicate_has_the_same_id(control: Control, listener: Listener) -> None:
    control.call("PUT", "/control/faults", {"duplicate_rate": 1})
    control.emit(listener)
    first, second = listener.wait(2)
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


def test_a_forged_copy_does_not_verify(
    gemini: Simulator, control: Control, listener: Listener
) -> None:
    control.call("PUT", "/control/faults", {"bad_signature_rate": 1})
    control.emit(listener)
    good = [_verifies(gemini.secret, request) for request in listener.wait(2)]
    assert sorted(good) == [False, True]


def test_a_lost_delivery_is_recorded_but_never_sent(
    gemini: Simulator, control: Control, listener: Listener
) -> None:
    control.call("PUT", "/control/faults", {"lost_rate": 1})
    control.emit(listener)
    assert [attempt.kind for attempt in gemini.attempts] == [Kind.LOST]


def test_an_unknown_fault_is_refused(control: Control) -> None:
    assert control.refused("/control/faults", {"duplicates": 1}) == 400


def test_an_emitted_event_goes_to_every_enabled_webhook(
    client: genai.Client, control: Control, listener: Listener
) -> None:
    hook = client.webhooks.create(uri=listener.url, subscribed_events=["batch.failed"])
    control.call("POST", "/control/events", {"type": "new.thing", "data": {"x": 1}})
    (received,) = listener.wait(1)
    event = Oracle(hook.new_signing_secret or "").verify(received.body, dict(received.headers))
    assert (event["type"], event["data"]) == ("new.thing", {"x": 1})


def test_scripts_can_be_set_over_http(client: genai.Client, control: Control) -> None:
    script = {"when": "Hi", "turns": [{"kind": "say", "text": "Hello yourself"}]}
    control.call("PUT", "/control/scripts", [script])
    answered: Any = client.interactions.create(model="m", input="Hi")
    assert answered.output_text == "Hello yourself"


def test_an_interaction_is_not_found_at_first(client: genai.Client, gemini: Simulator) -> None:
    gemini.faults = Faults(not_found_first=1)
    made: Any = client.interactions.create(model="m", input="Hi")
    with pytest.raises(NotFoundError):
        client.interactions.get(made.id)
    assert client.interactions.get(made.id).status == "completed"


def test_the_client_comes_back_after_a_rate_limit(client: genai.Client, gemini: Simulator) -> None:
    gemini.faults = Faults(rate_limit_first=1, retry_after=0)
    made: Any = client.interactions.create(model="m", input="Hi")
    assert made.status == "completed"
    assert len(gemini.interactions) == 1


def test_the_same_seed_throws_the_same_dice() -> None:
    faults = Faults(duplicate_rate=0.5, lost_rate=0.1, shuffle=1, seed=7)
    first, second = Dice(faults), Dice(faults)
    for _ in range(100):
        assert [astuple(copy) for copy in first.copies()] == [
            astuple(copy) for copy in second.copies()
        ]


def _verifies(secret: str, request: Any) -> bool:
    try:
        Oracle(secret).verify(request.body, dict(request.headers))
    except WebhookVerificationError:
        return False
    return True
