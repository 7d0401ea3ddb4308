"""The life of an interaction: it runs, waits for functions, ends; each change sends an event."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gemhooks.functions.calls import waiting_calls
from gemhooks.simulator import samples
from gemhooks.simulator.announcer import Announcer
from gemhooks.simulator.refusals import invalid
from gemhooks.simulator.schedule import Schedule
from gemhooks.simulator.scripts import CallFunctions, Fail, Say, Show, find, spoken
from gemhooks.simulator.state import Interaction, Request, State, Step

ANNOUNCED = frozenset({"completed", "failed", "requires_action", "cancelled"})
# What may stand in an input list without being a step of its own.
CONTENT_TYPES = frozenset({"text", "image", "audio", "video", "document"})


class Engine:
    def __init__(
        self, state: State, schedule: Schedule, announcer: Announcer, delay: float
    ) -> None:
        self._state = state
        self._schedule = schedule
        self._announcer = announcer
        self._delay = delay

    def create(self, request: Request, size: int) -> Interaction:
        check(request)
        interaction = self._begin(request)
        self._state.interactions.put(interaction.id, interaction, size)
        if not request.background:
            self._finish(interaction.id)
            return self._state.interactions.get(interaction.id)
        delay = self._delay + interaction.turn_played.delay
        self._schedule.after(delay, lambda: self._finish(interaction.id))
        return interaction

    def cancel(self, interaction_id: str) -> Interaction:
        self._state.interactions.get(interaction_id)
        cancelled = self._state.finish_interaction(
            interaction_id, lambda running: replace(running, status="cancelled")
        )
        if cancelled is None:
            raise invalid("Only an interaction that is in progress can be cancelled.")
        self._announce(cancelled)
        return cancelled

    def _begin(self, request: Request) -> Interaction:
        steps = input_steps(request.input)
        previous = self._previous(request)
        if previous is not None and previous.status == "requires_action":
            check_results(previous, steps)
            return begun(Interaction(request, previous.script, previous.turn + 1, steps=steps))
        if results_in(steps):
            raise invalid("There is no function call to answer.")
        script = find(self._state.scripts, text_of(steps))
        return begun(Interaction(request, script, steps=steps))

    def _previous(self, request: Request) -> Interaction | None:
        if request.previous_interaction_id is None:
            return None
        previous = self._state.interactions.get(request.previous_interaction_id)
        if previous.is_open:
            raise invalid(f"Interaction {previous.id} is still in progress.")
        return previous

    def _finish(self, interaction_id: str) -> None:
        running = self._state.interactions.find(interaction_id)
        lag = running.turn_played.lag if running is not None and running.is_open else 0.0
        if running is None or not lag:
            self._end(interaction_id)
            return
        # The event is ahead of what a GET shows; both tell of the same end.
        ahead = play(running)
        self._announce_end(ahead)
        self._schedule.after(lag, lambda: self._show(ahead))

    def _show(self, ended: Interaction) -> None:
        self._state.finish_interaction(ended.id, lambda _: ended)

    def _end(self, interaction_id: str) -> None:
        finished = self._state.finish_interaction(interaction_id, play)
        if finished is not None:
            self._announce_end(finished)

    def _announce_end(self, finished: Interaction) -> None:
        wanted = finished.turn_played.announce
        if not finished.request.background or wanted is False:
            return
        if isinstance(wanted, str) or finished.status in ANNOUNCED:
            self._announce(finished, wanted if isinstance(wanted, str) else None)

    def _announce(self, interaction: Interaction, event_type: str | None = None) -> None:
        event_type = event_type or f"interaction.{interaction.status}"
        config = interaction.request.webhook_config
        self._announcer.announce(event_type, data_of(interaction), config)


def check(request: Request) -> None:
    if (request.model is None) == (request.agent is None):
        raise invalid("Exactly one of 'model' and 'agent' is required.")
    if request.webhook_config is not None and not request.background:
        raise invalid("'webhook_config' requires 'background' to be true.")
    if not request.store and (request.background or request.previous_interaction_id):
        raise invalid("'store' must be true for background and for chained interactions.")


def begun(interaction: Interaction) -> Interaction:
    return replace(interaction, status=interaction.turn_played.status_before)


def play(interaction: Interaction) -> Interaction:
    """The interaction after the turn that its script says."""
    match turn := interaction.turn_played:
        case Fail():
            errors = ({"code": str(turn.code), "message": turn.message},)
            return replace(interaction, status="failed", errors=errors)
        case CallFunctions():
            return _with_steps(interaction, "requires_action", call_steps(turn))
        case Show():
            shown = (*turn.steps, *(samples.STEPS if turn.samples else ()))
            return replace(_with_steps(interaction, turn.status, shown), extra_events=turn.events)
        case Say():
            text = spoken(turn, results_in(interaction.steps))
            return _with_steps(interaction, "completed", [output_step(text)])


def _with_steps(interaction: Interaction, status: str, steps: Sequence[Step]) -> Interaction:
    return replace(interaction, status=status, steps=(*interaction.steps, *steps))


def call_steps(turn: CallFunctions) -> list[Step]:
    return [
        {
            "type": "function_call",
            "id": f"call_{secrets.token_hex(8)}",
            "name": call.name,
            "arguments": call.arguments,
        }
        for call in turn.calls
    ]


def output_step(text: str) -> Step:
    return {"type": "model_output", "content": [{"type": "text", "text": text}]}


def input_steps(value: str | Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    if isinstance(value, str):
        return ({"type": "user_input", "content": [{"type": "text", "text": value}]},)
    items = [value] if isinstance(value, Mapping) else list(value)
    if all(item.get("type") in CONTENT_TYPES for item in items):
        return ({"type": "user_input", "content": items},)
    return tuple(items)


def text_of(steps: Sequence[Step]) -> str:
    contents = [content for step in steps for content in step.get("content", ())]
    return " ".join(content["text"] for content in contents if "text" in content)


def results_in(steps: Sequence[Step]) -> list[Step]:
    return [step for step in steps if step.get("type") == "function_result"]


def check_results(previous: Interaction, steps: Sequence[Step]) -> None:
    """All calls are answered at once, or the model can't go on."""
    pending = {call.id for call in waiting_calls(previous.steps).calls}
    results = results_in(steps)
    if any("call_id" not in result or "result" not in result for result in results):
        raise invalid("A function_result needs 'call_id' and 'result'.")
    answered = {result["call_id"] for result in results}
    if unknown := answered - pending:
        raise invalid(f"No function call has the id {min(unknown)}.")
    if missing := pending - answered:
        raise invalid(f"Function calls without a result: {', '.join(sorted(missing))}.")


def data_of(interaction: Interaction) -> dict[str, Any]:
    """The thin payload: pointers, never results."""
    data: dict[str, Any] = {"id": interaction.id}
    if interaction.errors:
        error = interaction.errors[0]
        data |= {"error_code": int(error["code"]), "error_message": error["message"]}
    return data
