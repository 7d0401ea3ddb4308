"""The routes of /webhooks."""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from flask import Blueprint, request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from gemhooks.simulator.announcer import envelope
from gemhooks.simulator.clock import rfc3339, webhook_resource_id
from gemhooks.simulator.deliveries import Deliveries
from gemhooks.simulator.paging import page
from gemhooks.simulator.signatures import Target, new_secret
from gemhooks.simulator.state import SigningSecret, State, Webhook

SUBSCRIBABLE = (
    "batch.succeeded",
    "batch.expired",
    "batch.failed",
    "interaction.requires_action",
    "interaction.completed",
    "interaction.failed",
    "video.generated",
)


def _known(events: tuple[str, ...]) -> tuple[str, ...]:
    for event in events:
        if event not in SUBSCRIBABLE:
            raise ValueError(f"'{event}' is none of {', '.join(SUBSCRIBABLE)}")
    return events


Events = Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_known)]


class WebhookInput(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str = Field(min_length=1)
    subscribed_events: Events
    name: str | None = None


class WebhookUpdate(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str = Field(default="", min_length=1)
    subscribed_events: Events = ()
    name: str | None = None
    state: Literal["enabled", "disabled", "disabled_due_to_failed_deliveries"] = "enabled"


class Rotation(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    revocation_behavior: Literal[
        "revoke_previous_secrets_after_h24", "revoke_previous_secrets_immediately"
    ] = "revoke_previous_secrets_after_h24"


class WebhookRoutes:
    def __init__(self, state: State, deliveries: Deliveries) -> None:
        self._state = state
        self._deliveries = deliveries

    def register(self, api: Blueprint) -> None:
        one = "/webhooks/<webhook_id>"
        api.add_url_rule("/webhooks", view_func=self.create_webhook, methods=["POST"])
        api.add_url_rule("/webhooks", view_func=self.list_webhooks, methods=["GET"])
        api.add_url_rule(one, view_func=self.get_webhook, methods=["GET"])
        api.add_url_rule(one, view_func=self.update_webhook, methods=["PATCH"])
        api.add_url_rule(one, view_func=self.delete_webhook, methods=["DELETE"])
        api.add_url_rule(f"{one}:ping", view_func=self.ping_webhook, methods=["POST"])
        api.add_url_rule(f"{one}:rotateSigningSecret", view_func=self.rotate, methods=["POST"])

    def create_webhook(self) -> dict[str, Any]:
        asked = WebhookInput.model_validate(request.get_json())
        secret = new_secret()
        webhook = created(asked, SigningSecret(secret))
        self._state.webhooks.put(webhook.id, webhook)
        return self._show(webhook) | {"new_signing_secret": secret}

    def list_webhooks(self) -> dict[str, Any]:
        answer, token = page("webhooks", self._state.webhooks.values(), self._show)
        return answer | ({"next_page_token": token} if token else {})

    def get_webhook(self, webhook_id: str) -> dict[str, Any]:
        return self._show(self._state.webhooks.get(webhook_id))

    def update_webhook(self, webhook_id: str) -> dict[str, Any]:
        # As seen live: update_mask is ignored, exactly the fields of the body are applied.
        asked = WebhookUpdate.model_validate(request.get_json())
        names = asked.model_fields_set
        mask = request.args.get("update_mask")
        if mask and self._state.variants.update_mask == "applied":
            names = names & {name.strip() for name in mask.split(",")}
        fields = {name: getattr(asked, name) for name in names} | {"updated": rfc3339()}
        changed = self._state.webhooks.change(webhook_id, lambda hook: replace(hook, **fields))
        return self._show(changed)

    def delete_webhook(self, webhook_id: str) -> dict[str, Any]:
        self._state.webhooks.remove(webhook_id)
        return {}

    def ping_webhook(self, webhook_id: str) -> dict[str, Any]:
        webhook = self._state.webhooks.get(webhook_id)
        event_type = self._state.variants.ping_type
        ping, target = envelope(event_type, {"id": webhook.id}), Target(webhook.uri, webhook.id)
        self._deliveries.send(event_type, ping, [target], is_ping=True)
        return {}

    def rotate(self, webhook_id: str) -> dict[str, Any]:
        asked = Rotation.model_validate(request.get_json(silent=True) or {})
        at_once = asked.revocation_behavior.endswith("immediately")
        grace = 0.0 if at_once else self._state.variants.rotation_grace
        secret, until = new_secret(), time.time() + grace

        def rotated(hook: Webhook) -> Webhook:
            older = expiring(hook.secrets, until)
            return replace(hook, secrets=(SigningSecret(secret), *older), updated=rfc3339())

        self._state.webhooks.change(webhook_id, rotated)
        return {"secret": secret}

    def _show(self, webhook: Webhook) -> dict[str, Any]:
        if not self._state.variants.webhook_times:  # as seen live
            return resource(webhook)
        return resource(webhook) | {
            "create_time": webhook.created,
            "update_time": webhook.updated,
        }


def created(asked: WebhookInput, secret: SigningSecret) -> Webhook:
    return Webhook(
        webhook_resource_id(), asked.uri, asked.subscribed_events, (secret,), name=asked.name
    )


def expiring(secrets: Sequence[SigningSecret], at: float) -> list[SigningSecret]:
    return [replace(secret, expires=min(at, secret.expires or at)) for secret in secrets]


def resource(webhook: Webhook) -> dict[str, Any]:
    answer = {
        "id": webhook.id,
        "uri": webhook.uri,
        "subscribed_events": list(webhook.subscribed_events),
        "state": webhook.state,
        "signing_secrets": [_truncated(secret) for secret in webhook.secrets if secret.alive],
    }
    return answer if webhook.name is None else answer | {"name": webhook.name}


def _truncated(secret: SigningSecret) -> dict[str, str]:
    answer = {"truncated_secret": f"whsec_...{secret.text[-4:]}"}
    if secret.expires is not None:
        expires = datetime.fromtimestamp(secret.expires, UTC)
        answer["expire_time"] = expires.isoformat().replace("+00:00", "Z")
    return answer
