"""What the simulator signs, checked by the code that checks what Gemini signs."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import urllib3
from google import genai
from standardwebhooks import Webhook as Oracle
from standardwebhooks import WebhookVerificationError

from gemhooks import signing
from gemhooks.errors import InvalidSignature
from gemhooks.keys import PublishedKeys, parse_jwks
from gemhooks.signing import Ed25519Key, JwtRules, RsaKey, Scheme, Secret, Trust, Webhook
from gemhooks.simulator import Faults, Simulator, Variants
from tests.gemhooks.simulator.conftest import Listener, Received

DONE: list[Any] = ["interaction.completed"]


@dataclass(frozen=True)
class Published:
    """The keys that were published at one moment."""

    keys: PublishedKeys
    secrets: Sequence[Secret] = ()

    def ed25519_keys(self) -> Sequence[Ed25519Key]:
        return self.keys.ed25519

    def rsa_keys(self, kid: str | None) -> Sequence[RsaKey]:
        return self.keys.with_kid(kid)


def published(gemini: Simulator) -> Published:
    return Published(parse_jwks(urllib3.request("GET", gemini.jwks_url).data))


def verify(received: Received, keys: Published, uri: str = "") -> Webhook:
    return signing.verify(
        received.headers,
        received.body,
        keys,
        now=time.time(),
        schemes=(Scheme.V1A, Scheme.JWT),
        jwt_rules=JwtRules(audience=(uri,)) if uri else JwtRules(),
    )


def ask(client: genai.Client, listener: Listener) -> Received:
    """Start an interaction that is announced to the listener only; return what it hears."""
    config: Any = {"uris": [listener.url]}
    client.interactions.create(model="m", input="Hi", background=True, webhook_config=config)
    return listener.wait(1)[-1]


def test_uris_of_a_request_get_v1a_signatures(
    client: genai.Client, gemini: Simulator, listener: Listener
) -> None:
    received = ask(client, listener)
    webhook = verify(received, published(gemini))
    assert (webhook.scheme, webhook.trust) == (Scheme.V1A, Trust.BODY)
    assert received.headers["webhook-id"].startswith("msg_")


@pytest.mark.parametrize(
    ("claims", "trust"),
    [("bare", Trust.HINT), ("event", Trust.HINT), ("body_hash", Trust.BODY)],
)
def test_uris_of_a_request_may_get_tokens(
    client: genai.Client, gemini: Simulator, listener: Listener, claims: Any, trust: Trust
) -> None:
    gemini.variants = Variants(dynamic_scheme="jwt", jwt_claims=claims)
    webhook = verify(ask(client, listener), published(gemini), listener.url)
    assert (webhook.scheme, webhook.trust) == (Scheme.JWT, trust)


def test_a_token_may_be_for_another_audience(
    client: genai.Client, gemini: Simulator, listener: Listener
) -> None:
    gemini.variants = Variants(dynamic_scheme="jwt", jwt_audience="my-project")
    received = ask(client, listener)
    assert verify(received, published(gemini), "my-project").scheme is Scheme.JWT
    with pytest.raises(InvalidSignature, match="audience"):
        verify(received, published(gemini), listener.url)


def test_keys_are_published_as_ed25519_and_rsa(gemini: Simulator) -> None:
    answer = urllib3.request("GET", gemini.jwks_url)
    assert [key["kty"] for key in answer.json()["keys"]] == ["OKP", "OKP", "OKP", "RSA"]
    assert "max-age" in answer.headers["cache-control"]
    gemini.variants = Variants(jwks_kids=False)
    assert not any("kid" in key for key in urllib3.request("GET", gemini.jwks_url).json()["keys"])


@pytest.mark.parametrize("scheme", ["v1a", "jwt"])
def test_after_a_rotation_new_keys_sign_and_old_ones_go_when_told(
    client: genai.Client, gemini: Simulator, listener: Listener, scheme: Any
) -> None:
    gemini.variants = Variants(dynamic_scheme=scheme, jwt_audience="us")
    before, old = published(gemini), ask(client, listener)
    urllib3.request("POST", f"{gemini.url}/control/keys:rotate")
    config: Any = {"uris": [listener.url]}
    client.interactions.create(model="m", input="Hi", background=True, webhook_config=config)
    new = listener.wait(2)[1]
    with pytest.raises(InvalidSignature):
        verify(new, before, "us")
    for each in (old, new):
        verify(each, published(gemini), "us")
    urllib3.request("POST", f"{gemini.url}/control/keys:retire")
    verify(new, published(gemini), "us")
    with pytest.raises(InvalidSignature):
        verify(old, published(gemini), "us")


@pytest.mark.parametrize("scheme", ["v1", "v1a", "jwt"])
def test_a_forged_copy_is_forged_in_every_scheme(
    gemini: Simulator, listener: Listener, scheme: str
) -> None:
    gemini.faults = Faults(bad_signature_rate=1)
    event = {"type": "t", "data": {"id": "1"}, "uris": [listener.url], "scheme": scheme}
    urllib3.request("POST", f"{gemini.url}/control/events", json=event)
    keys = Published(
        published(gemini).keys, (Secret(signing.decode_secret(gemini.secret), "ours"),)
    )
    assert sorted(verifies(each, keys, listener.url) for each in listener.wait(2)) == [False, True]


def verifies(received: Received, keys: Published, uri: str) -> bool:
    try:
        signing.verify(
            received.headers,
            received.body,
            keys,
            now=time.time(),
            schemes=tuple(Scheme),
            jwt_rules=JwtRules(audience=(uri,)),
        )
    except InvalidSignature:
        return False
    return True


@pytest.mark.parametrize(
    ("signed_with", "good"), [("all", [0, 1]), ("newest", [1]), ("oldest", [0])]
)
def test_after_a_rotation_any_secret_may_sign(
    client: genai.Client, gemini: Simulator, listener: Listener, signed_with: Any, good: list[int]
) -> None:
    gemini.variants = Variants(signed_with=signed_with)
    hook = client.webhooks.create(uri=listener.url, subscribed_events=DONE)
    rotated = client.webhooks.rotate_signing_secret(id=hook.id or "")
    client.webhooks.ping(id=hook.id or "")
    (ping,) = listener.wait(1)
    secrets = [hook.new_signing_secret or "", rotated.secret or ""]
    assert [n for n, secret in enumerate(secrets) if fits(secret, ping)] == good


def fits(secret: str, received: Received) -> bool:
    try:
        Oracle(secret).verify(received.body, dict(received.headers))
    except WebhookVerificationError:
        return False
    return True


def test_the_24_hours_of_an_old_secret_can_be_compressed(
    client: genai.Client, gemini: Simulator
) -> None:
    gemini.variants = Variants(rotation_grace=0)
    hook = client.webhooks.create(uri="https://example.com/", subscribed_events=DONE)
    client.webhooks.rotate_signing_secret(id=hook.id or "")
    assert len(client.webhooks.get(id=hook.id or "").signing_secrets or []) == 1


@pytest.mark.parametrize(
    ("faults", "reason"),
    [(Faults(stale_rate=1), "too_old"), (Faults(future_rate=1), "too_new")],
)
def test_copies_with_another_time_are_signed_and_refused(
    client: genai.Client, gemini: Simulator, listener: Listener, faults: Faults, reason: str
) -> None:
    gemini.faults = faults
    ask(client, listener)
    reasons = []
    for received in listener.wait(2):
        try:
            verify(received, published(gemini))
        except InvalidSignature as error:
            reasons.append(str(error))
    assert reasons == [reason]


def test_signatures_of_strangers_stand_beside_the_right_one(
    client: genai.Client, gemini: Simulator, listener: Listener
) -> None:
    gemini.faults = Faults(extra_signature_rate=1)
    hook = client.webhooks.create(uri=listener.url, subscribed_events=DONE)
    client.webhooks.ping(id=hook.id or "")
    (ping,) = listener.wait(1)
    assert len(ping.headers["webhook-signature"].split()) == 3
    assert fits(hook.new_signing_secret or "", ping)


def test_unknown_and_malformed_events_come_along_with_good_signatures(
    client: genai.Client, gemini: Simulator, listener: Listener
) -> None:
    gemini.faults = Faults(unknown_type_rate=1, malformed_rate=1)
    ask(client, listener)
    received = listener.wait(3)
    assert len({each.headers["webhook-id"] for each in received}) == 3
    bodies = []
    for each in received:
        verify(each, published(gemini))
        bodies.append(kind_of(each.body))
    assert sorted(bodies) == ["interaction.completed", "interaction.dreamt", "no json"]


def kind_of(body: bytes) -> str:
    try:
        return str(json.loads(body)["type"])
    except json.JSONDecodeError:
        return "no json"


@pytest.fixture
def impatient() -> Iterator[Simulator]:
    with Simulator(delay=0.01, retry_base=0.001, max_attempts=2) as gemini:
        yield gemini


def test_a_webhook_that_fails_too_long_is_disabled_until_it_is_enabled_again(
    impatient: Simulator, connect: Any, listener: Listener
) -> None:
    client: genai.Client = connect(impatient.url)
    listener.statuses = [503, 503]
    hook = client.webhooks.create(uri=listener.url, subscribed_events=DONE)
    client.webhooks.ping(id=hook.id or "")
    listener.wait(2)
    assert impatient.wait_for(lambda _: impatient.webhooks[0].state != "enabled", timeout=60)
    assert client.webhooks.get(id=hook.id or "").state == "disabled_due_to_failed_deliveries"
    lost: Any = client.interactions.create(model="m", input="Hi", background=True)
    list(client.interactions.get(lost.id, stream=True))  # until it has ended
    client.webhooks.update(id=hook.id or "", state="enabled")
    heard: Any = client.interactions.create(model="m", input="Hi", background=True)
    assert json.loads(listener.wait(3)[2].body)["data"]["id"] == heard.id


def test_failures_in_a_row_disable_a_webhook(connect: Any, listener: Listener) -> None:
    with Simulator(retry_base=0.001, disable_after=3) as gemini:
        client: genai.Client = connect(gemini.url)
        hook = client.webhooks.create(uri=listener.url, subscribed_events=DONE)
        listener.statuses = [500, 500, 204, 500, 500, 500]
        client.webhooks.ping(id=hook.id or "")
        assert gemini.wait_for(lambda attempts: len(attempts) == 3, timeout=60)
        assert client.webhooks.get(id=hook.id or "").state == "enabled"
        client.webhooks.ping(id=hook.id or "")
        listener.wait(6)
        assert gemini.wait_for(lambda _: gemini.webhooks[0].state != "enabled", timeout=60)


@pytest.mark.parametrize("state", ["disabled", "disabled_due_to_failed_deliveries", "enabled"])
def test_an_update_takes_all_three_states(client: genai.Client, state: Any) -> None:
    hook = client.webhooks.create(uri="https://example.com/", subscribed_events=DONE)
    client.webhooks.update(id=hook.id or "", state=state)
    assert client.webhooks.get(id=hook.id or "").state == state


def test_a_mask_may_count(client: genai.Client, gemini: Simulator) -> None:
    gemini.variants = Variants(update_mask="applied")
    hook = client.webhooks.create(uri="https://example.com/", subscribed_events=DONE, name="old")
    client.webhooks.update(id=hook.id or "", update_mask="name", name="new", state="disabled")
    seen = client.webhooks.get(id=hook.id or "")
    assert (seen.name, seen.state) == ("new", "enabled")


def test_times_are_absent_unless_wanted(client: genai.Client, gemini: Simulator) -> None:
    hook = client.webhooks.create(uri="https://example.com/", subscribed_events=DONE)
    assert client.webhooks.get(id=hook.id or "").create_time is None
    gemini.variants = Variants(webhook_times=True)
    assert client.webhooks.get(id=hook.id or "").create_time is not None
