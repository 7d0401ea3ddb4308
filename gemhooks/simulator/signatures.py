"""How a delivery is signed: as Gemini would, or wrongly on purpose."""

import base64
import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gemhooks import signing
from gemhooks.signing import Scheme
from gemhooks.simulator.faults import Kind
from gemhooks.simulator.key_ring import KeyRing
from gemhooks.simulator.state import State

ISSUER = "https://accounts.google.com"
TOKEN_SECONDS = 3600
# Another's signature and a scheme of the future, as a receiver must be able to skip them.
STRANGERS = ("v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "v2,bmV4dA==")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a delivery goes; without a webhook's id it came from a `webhook_config`."""

    uri: str
    webhook_id: str | None = None
    scheme: Scheme = Scheme.V1


@dataclass(frozen=True, slots=True)
class Delivery:
    id: str
    type: str
    body: bytes
    target: Target
    kind: Kind
    resource_id: str = ""  # whose event it is
    attempt: int = 1
    is_ping: bool = False


class Signer:
    """*secret* signs what is for no registered webhook, where that is signed with ``v1``."""

    def __init__(self, state: State, keys: KeyRing, secret: bytes) -> None:
        self._state = state
        self._keys = keys
        self._secret = secret

    def takes(self, delivery: Delivery) -> bool:
        """Whether the webhook is still there and enabled; a ping goes to a disabled one too."""
        webhook_id = delivery.target.webhook_id
        if webhook_id is None:
            return True
        webhook = self._state.webhooks.find(webhook_id)
        return webhook is not None and (webhook.state == "enabled" or delivery.is_ping)

    def headers(self, delivery: Delivery, now: int) -> dict[str, str]:
        """The headers of an attempt that is made *now*, in seconds since 1970."""
        timestamp = now + self._state.faults.clock_of(delivery.kind)
        return {
            "content-type": "application/json",
            "webhook-id": delivery.id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": self._signature(delivery, timestamp),
        }

    def _signature(self, delivery: Delivery, timestamp: int) -> str:
        scheme = delivery.target.scheme
        if scheme is Scheme.V1:
            entries = self._v1(delivery, timestamp)
        elif scheme is Scheme.V1A:
            entries = [self._v1a(delivery, timestamp)]
        else:
            return self._jwt(delivery, timestamp)
        if delivery.kind is Kind.ACCOMPANIED:
            entries = [*STRANGERS, *entries]
        return " ".join(entries)

    def _v1(self, delivery: Delivery, timestamp: int) -> list[str]:
        keys = (
            [secrets.token_bytes(32)] if delivery.kind is Kind.FORGED else self._secrets(delivery)
        )
        return [signing.sign_v1(delivery.id, timestamp, delivery.body, key) for key in keys]

    def _v1a(self, delivery: Delivery, timestamp: int) -> str:
        keys = KeyRing() if delivery.kind is Kind.FORGED else self._keys
        return keys.sign_v1a(delivery.id, timestamp, delivery.body)

    def _jwt(self, delivery: Delivery, timestamp: int) -> str:
        keys = KeyRing() if delivery.kind is Kind.FORGED else self._keys
        return keys.sign_jwt(self._claims(delivery, timestamp))

    def _claims(self, delivery: Delivery, timestamp: int) -> dict[str, Any]:
        variants = self._state.variants
        claims: dict[str, Any] = {
            "iss": ISSUER,
            "aud": variants.jwt_audience or delivery.target.uri,
            "iat": timestamp,
            "exp": timestamp + TOKEN_SECONDS,
        }
        if variants.jwt_claims == "event":
            event = json.loads(delivery.body)
            claims |= {"type": delivery.type, "data": event.get("data", {})}
        if variants.jwt_claims == "body_hash":
            digest = hashlib.sha256(delivery.body).digest()
            claims["body_sha256"] = base64.b64encode(digest).decode()
        return claims

    def _secrets(self, delivery: Delivery) -> Sequence[bytes]:
        webhook_id = delivery.target.webhook_id
        if webhook_id is None:
            return [self._secret]
        webhook = self._state.webhooks.find(webhook_id)
        alive = [one.text for one in webhook.secrets if one.alive] if webhook is not None else []
        used = {"all": alive, "newest": alive[:1], "oldest": alive[-1:]}
        return [signing.decode_secret(text) for text in used[self._state.variants.signed_with]]


def new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
