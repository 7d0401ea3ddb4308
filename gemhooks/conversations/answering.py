"""The functions of a registry answer the tool calls of a conversation: in process, each once.

Only who calls this starts a function. Nothing of ours does so for a message from a queue.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from gemhooks.conversations.from_interactions import USER
from gemhooks.conversations.into_steps import tool_name
from gemhooks.conversations.messages import Chunk, Message, ToolCall, ToolResponse
from gemhooks.errors import Unanswered
from gemhooks.functions import Call, Effect, Function, Functions
from gemhooks.functions.once import Interaction, OnceOnly
from gemhooks.functions.records import PARKED, CallClaim, CallLedger, CallRecord, CallState

LARGEST_WHOLE = 2**53  # a double holds every integer up to here
_SAME = ("id", "display_name", "parent_tool_call_id", "agent_name", "tool", "toolset_tool")
_NO_ID = "The call has no id. A function that must not run twice can't be run for it."
_REUSED = "The call's id was that of another call before: this one was not run."
_TOO_DEEP = "The function ran, but its result is nested too deeply to be sent."


def answer(
    message: Message, functions: Functions, ledger: CallLedger, *, conversation: str
) -> Message | None:
    """The user's message with the responses to all tool calls of *message*; None without calls.

    The rest is as :func:`respond` has it.
    """
    calls = [chunk.tool_call for chunk in message.chunks if chunk.tool_call is not None]
    if not calls:
        return None
    responses = respond(calls, functions, ledger, conversation=conversation)
    return Message(role=USER, chunks=tuple(Chunk(tool_response=each) for each in responses))


def respond(
    calls: Sequence[ToolCall], functions: Functions, ledger: CallLedger, *, conversation: str
) -> list[ToolResponse]:
    """One response a call, in their order; a call that was answered before is not run again.

    A call is known by *conversation* (a session's name, an interaction's id) and its own id. What
    goes wrong in a call is its response's `error`. Raises Unanswered where one runs elsewhere or
    waits for a person: the others are recorded, so that the same again only runs what is missing.
    Raises LedgerUnavailable while the ledger is away: what can't be claimed is not run.
    """
    if not conversation:
        raise ValueError("a conversation needs a name: its calls are known by it")
    known: dict[str, Call] = {}
    keys = [_key(each, functions, known) for each in calls]
    settled = OnceOnly(functions, ledger).settle(Interaction(conversation), list(known.values()))
    claims = dict(zip(known, settled.claims, strict=True))
    told = [_told(*each, claims, functions) for each in zip(calls, keys, strict=True)]
    return [_response(call, *each) for call, each in zip(calls, told, strict=True)]


def _key(call: ToolCall, functions: Functions, known: dict[str, Call]) -> str | None:
    """What the ledger knows *call* by; None where it can't be told from its own repetition."""
    function = functions.get(tool_name(call))
    if not call.id and function is not None and not _may_run_again(function):
        return None
    key = call.id or f"anonymous-{uuid.uuid4()}"
    known.setdefault(key, _call(call, key))
    return key


def _may_run_again(function: Function) -> bool:
    return function.effect is Effect.IDEMPOTENT and not function.approval


def _call(call: ToolCall, key: str) -> Call:
    return Call(key, tool_name(call), _with_integers(call.args or {}))


def _with_integers(value: Any) -> Any:
    """A Struct has no integers: 100 may arrive as 100.0, which a strict int would refuse."""
    if isinstance(value, dict):
        return {key: _with_integers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_integers(each) for each in value]
    whole = isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST_WHOLE
    return int(value) if whole else value


def _told(
    call: ToolCall, key: str | None, claims: Mapping[str, CallClaim], functions: Functions
) -> tuple[Any, bool]:
    """What is answered, and whether it is an error; Unanswered where there is nothing yet."""
    if key is None:
        return _NO_ID, True
    claim = claims[key]
    if _is_other(claim.record, _call(call, key), functions):
        return _REUSED, True
    if claim.record.state in PARKED:
        raise Unanswered(f"call {claim.record.id} waits for a person: see gemhooks calls list")
    if claim.record.state is not CallState.DONE:
        raise Unanswered("a call is running elsewhere", at_least=claim.busy)
    return claim.record.result, claim.record.is_error


def _is_other(record: CallRecord, call: Call, functions: Functions) -> bool:
    """True where the id stood for something else before: its answer must not be given for this."""
    if record.function != call.name:
        return bool(functions.get(record.function) or functions.get(call.name))
    try:
        return bool(json.loads(record.arguments) != call.arguments)
    except ValueError:  # only the beginning was kept
        return False


def _response(call: ToolCall, result: Any, failed: bool) -> ToolResponse:  # noqa: FBT001 - a pair
    same = {name: getattr(call, name) for name in _SAME}
    try:
        response = {"error" if failed else "output": result}
        return ToolResponse.model_validate(same | {"response": response})
    except ValidationError:
        return ToolResponse.model_validate(same | {"response": {"error": _TOO_DEEP}})
