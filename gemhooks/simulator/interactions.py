"""The routes of /interactions."""

from collections.abc import Sequence
from typing import Any

from flask import Blueprint, request

from gemhooks.simulator.engine import Engine, text_of
from gemhooks.simulator.state import Interaction, Request, State, Step

# Kept by Gemini, but not shown again.
HIDDEN = {"input", "background", "store", "stream"}
INPUTS = frozenset({"user_input", "function_result"})


class InteractionRoutes:
    def __init__(self, state: State, engine: Engine) -> None:
        self._state = state
        self._engine = engine

    def register(self, api: Blueprint) -> None:
        one = "/interactions/<interaction_id>"
        api.add_url_rule("/interactions", view_func=self.create_interaction, methods=["POST"])
        api.add_url_rule(one, view_func=self.get_interaction, methods=["GET"])
        api.add_url_rule(one, view_func=self.delete_interaction, methods=["DELETE"])
        api.add_url_rule(f"{one}/cancel", view_func=self.cancel_interaction, methods=["POST"])

    def create_interaction(self) -> dict[str, Any]:
        interaction = self._engine.create(Request.model_validate(request.get_json()))
        # The answer to a create call has only the model's steps; a GET has the user's too.
        steps = [step for step in interaction.steps if step.get("type") not in INPUTS]
        return resource(interaction, steps)

    def get_interaction(self, interaction_id: str) -> dict[str, Any]:
        interaction = self._state.seen(interaction_id, self._state.interactions)
        return resource(interaction, interaction.steps)

    def delete_interaction(self, interaction_id: str) -> dict[str, Any]:
        self._state.interactions.remove(interaction_id)
        return {}

    def cancel_interaction(self, interaction_id: str) -> dict[str, Any]:
        interaction = self._engine.cancel(interaction_id)
        return resource(interaction, interaction.steps)


def resource(interaction: Interaction, steps: Sequence[Step]) -> dict[str, Any]:
    asked = interaction.request.model_dump(mode="json", exclude_none=True, exclude=HIDDEN)
    answer = asked | {
        "id": interaction.id,
        "object": "interaction",
        "status": interaction.status,
        "steps": list(steps),
        "created": interaction.created,
        "updated": interaction.updated,
    }
    if interaction.errors:
        answer["errors"] = list(interaction.errors)
    if interaction.status != "in_progress":
        answer["usage"] = usage(interaction)
    return answer


def usage(interaction: Interaction) -> dict[str, int]:
    """A word is a token here."""
    said = [step for step in interaction.steps if step.get("type") == "model_output"]
    heard = [step for step in interaction.steps if step.get("type") in INPUTS]
    output, given = len(text_of(said).split()), len(text_of(heard).split())
    return {
        "total_input_tokens": given,
        "total_output_tokens": output,
        "total_tokens": given + output,
    }
