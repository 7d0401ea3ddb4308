"""The webhooks resource, driven by the official client."""

import base64
import re
from typing import Any

import pytest
import urllib3
from google import genai
from google.genai._interactions_errors import BadRequestError, NotFoundError
from standardwebhooks import Webhook as Oracle

from gemhooks.simulator import Simulator
from tests.gemhooks.simulator.conftest import Listener

DONE: list[Any] = ["interaction.completed"]
A_URI = "https://example.com/webhooks"


def test_a_new_webhook_shows_its_secret_once(client: genai.Client) -> None:
    created = client.webhooks.create(uri=A_URI, subscribed_events=DONE, name="mine")
    assert created.id
    assert re.fullmatch("[a-z0-9]{36}", created.id)
    assert created.new_signing_secret is not None
    key = base64.b64decode(created.new_signing_secret.removeprefix("whsec_"), validate=True)
    assert len(key) == 32
    seen = client.webhooks.get(id=created.id)
    assert seen.new_signing_secret is None
    assert (seen.name, seen.uri, seen.state) == ("mine", A_URI, "enabled")
    assert seen.signing_secrets
    assert seen.signing_secrets[0].truncated_secret == (
        f"whsec_...{created.new_signing_secret[-4:]}"
    )


def test_a_list_comes_in_pages(client: genai.Client) -> None:
    for name in ("a", "b", "c"):
        client.webhooks.create(uri=A_URI, subscribed_events=DONE, name=name)
    first = client.webhooks.list(page_size=2)
    second = client.webhooks.list(page_size=2, page_token=first.next_page_token)
    names = [hook.name for page in (first, second) for hook in page.webhooks or []]
    assert names == ["a", "b", "c"]
    assert not second.next_page_token


def test_an_update_applies_the_body_whatever_the_mask_says(client: genai.Client) -> None:
    hook = client.webhooks.create(uri=A_URI, subscribed_events=DONE, name="old")
    client.webhooks.update(id=hook.id or "", update_mask="name", state="disabled")
    seen = client.webhooks.get(id=hook.id or "")
    assert (seen.name, seen.state) == ("old", "disabled")


def test_a_deleted_webhook_is_not_found(client: genai.Client) -> None:
    hook = client.webhooks.create(uri=A_URI, subscribed_events=DONE)
    client.webhooks.delete(id=hook.id or "")
    with pytest.raises(NotFoundError) as raised:
        client.webhooks.get(id=hook.id or "")
    assert raised.value.response.json()["error"]["status"] == "NOT_FOUND"


def test_an_event_that_nobody_can_subscribe_to_is_refused(client: genai.Client) -> None:
    events: list[Any] = ["batch.cancelled"]
    with pytest.raises(BadRequestError, match="none of batch"):
        client.webhooks.create(uri=A_URI, subscribed_events=events)


def test_a_ping_is_signed_with_the_secret_of_its_webhook(
    client: genai.Client, listener: Listener
) -> None:
    hook = client.webhooks.create(uri=listener.url, subscribed_events=DONE)
    client.webhooks.ping(id=hook.id or "")
    (ping,) = listener.wait(1)
    event = Oracle(hook.new_signing_secret or "").verify(ping.body, dict(ping.headers))
    assert event["type"] == "ping"


def test_after_a_rotation_both_secrets_sign(client: genai.Client, listener: Listener) -> None:
    hook = client.webhooks.create(uri=listener.url, subscribed_events=DONE)
    rotated = client.webhooks.rotate_signing_secret(id=hook.id or "")
    client.webhooks.ping(id=hook.id or "")
    (ping,) = listener.wait(1)
    for secret in (hook.new_signing_secret, rotated.secret):
        Oracle(secret or "").verify(ping.body, dict(ping.headers))
    shown = client.webhooks.get(id=hook.id or "").signing_secrets or []
    assert [secret.expire_time is None for secret in shown] == [True, False]


def test_a_rotation_at_once_leaves_one_secret(client: genai.Client) -> None:
    hook = client.webhooks.create(uri=A_URI, subscribed_events=DONE)
    client.webhooks.rotate_signing_secret(
        id=hook.id or "", revocation_behavior="revoke_previous_secrets_immediately"
    )
    assert len(client.webhooks.get(id=hook.id or "").signing_secrets or []) == 1


def test_a_request_without_a_key_is_forbidden(gemini: Simulator) -> None:
    with urllib3.PoolManager() as http:
        answer = http.request("GET", f"{gemini.url}/v1/webhooks")
    assert answer.status == 403
    assert answer.json()["error"]["status"] == "PERMISSION_DENIED"
