"""The routes of /interactions."""

import time
from collections.abc import Iterable, Iterator
from typing import Any

from flask import Blueprint, Response, request

from gemhooks.simulator import streams
from gemhooks.simulator.engine import Engine, text_of
from gemhooks.simulator.faults import Faults
from gemhooks.simulator.state import Interaction, Request, State
from gemhooks.simulator.streams import INPUTS

# Kept by Gemini, but not shown again.
HIDDEN = {"input", "background", "store", "stream"}
PATIENCE = 0.5  # seconds between two looks whether the simulator is being stopped
GARBAGE = b'event: step.delta\ndata: {"event_type":"step.del\n\n'


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

    def create_interaction(self) -> dict[str, Any] | Response:
        asked = Request.model_validate(request.get_json())
        interaction = self._engine.create(asked, request.content_length or 0)
        if asked.stream:
            return self._stream(interaction)
        # The answer to a create call has only the model's steps; a GET has the user's too.
        steps = [step for step in interaction.steps if step.get("type") not in INPUTS]
        return resource(interaction) | {"steps": steps}

    def get_interaction(self, interaction_id: str) -> dict[str, Any] | Response:
        interaction = self._state.seen(interaction_id, self._state.interactions)
        if request.args.get("stream", "").lower() == "true":
            return self._stream(interaction, request.args.get("last_event_id"))
        return resource(interaction)

    def delete_interaction(self, interaction_id: str) -> dict[str, Any]:
        self._state.interactions.remove(interaction_id)
        return {}

    def cancel_interaction(self, interaction_id: str) -> dict[str, Any]:
        interaction = self._engine.cancel(interaction_id)
        return resource(interaction)

    def _stream(self, interaction: Interaction, last_event_id: str | None = None) -> Response:
        sent = streams.position(self._events(interaction), last_event_id)
        pieces = broken(self._pieces(interaction.id, sent), self._state.faults)
        return Response(pieces, content_type="text/event-stream")

    def _pieces(self, interaction_id: str, sent: int) -> Iterator[bytes]:
        """Yield the events from number *sent* on, until the interaction has ended or is gone."""
        while interaction := self._state.interactions.find(interaction_id):
            found = self._events(interaction)
            yield from map(streams.encode, found[sent:])
            if not interaction.is_open:
                yield streams.DONE
                return
            sent = len(found)
            self._state.interactions.wait(interaction_id, lambda one: not one.is_open, PATIENCE)
            if self._state.closing.is_set():
                return

    def _events(self, interaction: Interaction) -> list[streams.Event]:
        return streams.events(interaction, summary(interaction), self._state.variants)


def broken(pieces: Iterable[bytes], faults: Faults) -> Iterator[bytes]:
    """The pieces of a stream as *faults* let them through."""
    for number, piece in enumerate(pieces, 1):
        if faults.stream_pause:
            time.sleep(faults.stream_pause)
        if faults.stream_cut_after and number > faults.stream_cut_after:
            yield piece[: len(piece) // 2]
            return
        if faults.stream_garbage_every and number % faults.stream_garbage_every == 0:
            yield GARBAGE
        yield piece


def resource(interaction: Interaction) -> dict[str, Any]:
    return summary(interaction) | {"steps": list(interaction.steps)}


def summary(interaction: Interaction) -> dict[str, Any]:
    """The interaction without its steps, as the events of its stream carry it."""
    asked = interaction.request.model_dump(mode="json", exclude_none=True, exclude=HIDDEN)
    answer = asked | {
        "id": interaction.id,
        "object": "interaction",
        "status": interaction.status,
        "created": interaction.created,
        "updated": interaction.updated,
    }
    if interaction.errors:
        answer["errors"] = list(interaction.errors)
    if not interaction.is_open:
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
