"""What tests and people at a terminal steer: /livez and /control, which Gemini does not have."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from flask import Blueprint, request
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from gemhooks.simulator.announcer import envelope
from gemhooks.simulator.deliveries import Deliveries, Target
from gemhooks.simulator.faults import Faults
from gemhooks.simulator.plans import Plans
from gemhooks.simulator.refusals import invalid
from gemhooks.simulator.scripts import Script
from gemhooks.simulator.state import State
from gemhooks.simulator.variants import Variants

SCRIPTS = TypeAdapter(tuple[Script, ...])
FAULTS = TypeAdapter(Faults)


class Emission(BaseModel):
    """An event of any type and data, sent *count* times with an id each."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: str
    data: Mapping[str, Any]
    webhook_id: str | None = None
    uris: tuple[str, ...] = ()
    count: int = Field(default=1, ge=1, le=1_000_000)


class ControlRoutes:
    def __init__(self, state: State, deliveries: Deliveries) -> None:
        self._state = state
        self._deliveries = deliveries

    def blueprint(self) -> Blueprint:
        control = Blueprint("control", __name__)
        control.add_url_rule("/livez", view_func=self.livez)
        control.add_url_rule("/control/deliveries", view_func=self.list_deliveries)
        control.add_url_rule("/control/events", view_func=self.emit, methods=["POST"])
        control.add_url_rule("/control/faults", view_func=self.set_faults, methods=["PUT"])
        control.add_url_rule("/control/plans", view_func=self.set_plans, methods=["PUT"])
        control.add_url_rule("/control/variants", view_func=self.set_variants, methods=["PUT"])
        control.add_url_rule("/control/scripts", view_func=self.set_scripts, methods=["PUT"])
        return control

    def livez(self) -> dict[str, Any]:
        return {"status": "ok"}

    def list_deliveries(self) -> dict[str, Any]:
        return {"deliveries": [asdict(attempt) for attempt in self._deliveries.attempts]}

    def emit(self) -> dict[str, Any]:
        asked = Emission.model_validate(request.get_json())
        targets = self._targets(asked)
        event = envelope(asked.type, asked.data)
        ids = [self._deliveries.send(asked.type, event, targets) for _ in range(asked.count)]
        return {"ids": ids}

    def set_faults(self) -> dict[str, Any]:
        asked = request.get_json()
        faults = FAULTS.validate_python(asked)
        # A dataclass lets unknown fields pass, and a misspelt fault would look like none.
        if unknown := set(asked) - set(asdict(Faults())):
            raise invalid(f"Unknown fault '{min(unknown)}'.")
        self._state.faults = faults
        return asdict(self._state.faults)

    def set_scripts(self) -> dict[str, Any]:
        self._state.scripts = SCRIPTS.validate_python(request.get_json())
        return {"scripts": len(self._state.scripts)}

    def set_plans(self) -> dict[str, Any]:
        self._state.plans = Plans.model_validate(request.get_json())
        return self._state.plans.model_dump()

    def set_variants(self) -> dict[str, Any]:
        self._state.variants = Variants.model_validate(request.get_json())
        return self._state.variants.model_dump()

    def _targets(self, asked: Emission) -> list[Target]:
        if asked.uris:
            return [Target(uri) for uri in asked.uris]
        if asked.webhook_id is not None:
            webhook = self._state.webhooks.get(asked.webhook_id)
            return [Target(webhook.uri, webhook.id)]
        # Whatever they subscribed to: the point is to send what Gemini would not.
        enabled = (
            webhook for webhook in self._state.webhooks.values() if webhook.state == "enabled"
        )
        return [Target(webhook.uri, webhook.id) for webhook in enabled]
