"""What tests and people at a terminal steer: /livez and /control, which Gemini does not have."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from flask import Blueprint, request
from flask.typing import ResponseReturnValue
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from gemhooks.signing import Scheme
from gemhooks.simulator.announcer import envelope
from gemhooks.simulator.deliveries import Deliveries
from gemhooks.simulator.faults import Faults
from gemhooks.simulator.key_ring import KeyRing
from gemhooks.simulator.plans import Plans
from gemhooks.simulator.scripts import Script
from gemhooks.simulator.signatures import Target
from gemhooks.simulator.state import State
from gemhooks.simulator.variants import Variants

SCRIPTS = TypeAdapter(tuple[Script, ...])
JWKS_SECONDS = 3600


class Emission(BaseModel):
    """An event of any type and data, or a whole *event*, sent *count* times with an id each."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: str = ""
    data: Mapping[str, Any] = {}
    event: Mapping[str, Any] | None = None
    webhook_id: str | None = None
    uris: tuple[str, ...] = ()
    scheme: Scheme = Scheme.V1  # of what goes to *uris*
    count: int = Field(default=1, ge=1, le=1_000_000)


class ControlRoutes:
    def __init__(self, state: State, deliveries: Deliveries, keys: KeyRing) -> None:
        self._state = state
        self._deliveries = deliveries
        self._keys = keys

    def blueprint(self) -> Blueprint:
        control = Blueprint("control", __name__)
        views: dict[str, Callable[..., ResponseReturnValue]] = {
            "GET /livez": self.livez,
            "GET /.well-known/jwks.json": self.jwks,
            "GET /control/deliveries": self.list_deliveries,
            "GET /control/counts": self.count,
            "POST /control/events": self.emit,
            "GET /control/faults": self.get_faults,
            "PUT /control/faults": self.set_faults,
            "PUT /control/scripts": self.set_scripts,
            "PUT /control/plans": self.set_plans,
            "PUT /control/variants": self.set_variants,
            "POST /control/keys:rotate": self.rotate_keys,
            "POST /control/keys:retire": self.retire_keys,
            "POST /control/files/<file_id>:expire": self.expire_file,
        }
        for line, view in views.items():
            method, path = line.split()
            control.add_url_rule(path, view_func=view, methods=[method])
        return control

    def livez(self) -> dict[str, Any]:
        return {"status": "ok"}

    def jwks(self) -> tuple[dict[str, Any], dict[str, str]]:
        keys = self._keys.jwks()["keys"]
        if not self._state.variants.jwks_kids:
            keys = [{name: key[name] for name in key if name != "kid"} for key in keys]
        return {"keys": keys}, {"Cache-Control": f"public, max-age={JWKS_SECONDS}"}

    def list_deliveries(self) -> dict[str, Any]:
        return {"deliveries": [asdict(attempt) for attempt in self._deliveries.attempts]}

    def count(self) -> dict[str, Any]:
        return {
            "deliveries": self._deliveries.counts,
            "webhooks": len(self._state.webhooks),
            "interactions": len(self._state.interactions),
            "batches": len(self._state.batches),
            "videos": len(self._state.videos),
        }

    def emit(self) -> dict[str, Any]:
        asked = Emission.model_validate(request.get_json())
        targets = self._targets(asked)
        event = asked.event or envelope(asked.type, asked.data)
        kind = str(event.get("type", ""))
        ids = [self._deliveries.send(kind, event, targets) for _ in range(asked.count)]
        return {"ids": ids}

    def get_faults(self) -> dict[str, Any]:
        return self._state.faults.model_dump()

    def set_faults(self) -> dict[str, Any]:
        self._state.faults = Faults.model_validate(request.get_json())
        return self.get_faults()

    def set_scripts(self) -> dict[str, Any]:
        self._state.scripts = SCRIPTS.validate_python(request.get_json())
        return {"scripts": len(self._state.scripts)}

    def set_plans(self) -> dict[str, Any]:
        self._state.plans = Plans.model_validate(request.get_json())
        return self._state.plans.model_dump()

    def set_variants(self) -> dict[str, Any]:
        self._state.variants = Variants.model_validate(request.get_json())
        return self._state.variants.model_dump()

    def rotate_keys(self) -> dict[str, Any]:
        self._keys.rotate()
        return self._keys.jwks()

    def retire_keys(self) -> dict[str, Any]:
        self._keys.retire()
        return self._keys.jwks()

    def expire_file(self, file_id: str) -> dict[str, Any]:
        self._state.files.expire(file_id)
        return {}

    def _targets(self, asked: Emission) -> list[Target]:
        if asked.uris:
            return [Target(uri, scheme=asked.scheme) for uri in asked.uris]
        if asked.webhook_id is not None:
            webhook = self._state.webhooks.get(asked.webhook_id)
            return [Target(webhook.uri, webhook.id)]
        # Whatever they subscribed to: the point is to send what Gemini would not.
        enabled = (hook for hook in self._state.webhooks.values() if hook.state == "enabled")
        return [Target(webhook.uri, webhook.id) for webhook in enabled]
