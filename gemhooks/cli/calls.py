"""``gemhooks calls``: the function calls of models, and those that wait for a person."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gemhooks.cli.jobs import instant, ledgers
from gemhooks.cli.tables import MOST_ROWS, Format, FormatOption, show, show_one
from gemhooks.cli.waking import wake
from gemhooks.errors import Misconfigured
from gemhooks.functions.chains import Continuation, SendState
from gemhooks.functions.records import CallRecord, CallState
from gemhooks.functions.verdicts import OUTCOMES, SENDS_TO, Verdict

if TYPE_CHECKING:  # SQLAlchemy is slow to import, and --help is not
    from gemhooks.ledger import Ledgers

app = typer.Typer(help="Function calls, and those that wait for a person.", no_args_is_help=True)

COLUMNS = ("id", "function", "state", "outcome", "created_at", "interaction_id")
TIMES = ("created_at", "started_at", "ended_at")
CONTINUATION = "(continuation)"
CallId = Annotated[str, typer.Argument(metavar="ID", help="as `gemhooks calls list` shows it")]


@app.callback()
def options() -> None:
    """Function calls, and those that wait for a person."""


@app.command("list")
def list_(
    *,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="only those of which nobody knows how they ended")
    ] = False,
    approval: Annotated[
        bool, typer.Option("--approval", help="only those that wait for a yes")
    ] = False,
    limit: Annotated[int, typer.Option(help="the newest so many", min=1, max=MOST_ROWS)] = 100,
    form: FormatOption = Format.TABLE,
) -> None:
    """List calls, the newest first; with --unknown also continuations that may be lost."""
    wanted = [CallState.UNKNOWN] * unknown + [CallState.APPROVAL] * approval
    with ledgers() as opened:
        rows = [row(each) for each in opened.calls.list(*wanted, limit=limit)]
        if unknown:
            lost = opened.continuations.list(SendState.UNKNOWN, limit=limit)
            rows += [row_of_continuation(each) for each in lost]
    show(rows, COLUMNS, form)


@app.command("show")
def show_(call_id: CallId, form: FormatOption = Format.TABLE) -> None:
    """Show all that is known of one call, its arguments and its result included."""
    with ledgers() as opened:
        found = find(opened, call_id)
    fields = row(found) if isinstance(found, CallRecord) else row_of_continuation(found)
    show_one(fields, tuple(fields), form)


@app.command("approve")
def approve(call_id: CallId) -> None:
    """Say yes to a call that waits for it."""
    decide(call_id, Verdict.APPROVE)


@app.command("reject")
def reject(
    call_id: CallId,
    reason: Annotated[str, typer.Option(help="what the model is told")] = "A person rejected it.",
) -> None:
    """Say no: the function does not run, and the model is told so."""
    decide(call_id, Verdict.REJECT, reason)


@app.command("resolve")
def resolve(
    call_id: CallId,
    result: Annotated[
        str | None,
        typer.Option(help="it did run, with this result (JSON or text); of a continuation: its id"),
    ] = None,
    *,
    rerun: Annotated[bool, typer.Option("--rerun", help="it did not: run it, send it")] = False,
    fail: Annotated[bool, typer.Option("--fail", help="give it up")] = False,
) -> None:
    """Settle a call or a continuation of which nobody knows how it ended."""
    if (result is not None) + rerun + fail != 1:
        raise Misconfigured("say one of --result, --rerun and --fail.")
    if result is not None:
        decide(call_id, Verdict.RESULT, result)
    elif rerun:
        decide(call_id, Verdict.RERUN)
    else:
        decide(call_id, Verdict.FAIL, "Nobody knows whether it was done, and it was given up.")


def decide(call_id: str, verdict: Verdict, said: str | None = None) -> None:
    """Record the decision, then wake a worker; safe to repeat where the second did not work."""
    with ledgers() as opened:
        found = find(opened, call_id)
        if isinstance(found, Continuation):
            settled = settle_continuation(opened, found, verdict, said)
        else:
            settled = settle_call(opened, found, verdict, said)
    wake(found.interaction_id, by=call_id)
    typer.echo(f"{name_of(found)} is {settled}; a worker goes on with it.")


def settle_call(opened: "Ledgers", call: CallRecord, verdict: Verdict, said: str | None) -> str:
    value = parsed(said) if verdict is Verdict.RESULT else said
    if (now := opened.calls.decide(call.id, verdict, value)) is not None:
        return now.outcome or now.state
    now = opened.calls.get(call.id) or call
    if now.state is not CallState.DONE or now.outcome != OUTCOMES.get(verdict):
        raise Misconfigured(f"{name_of(now)} is {now.outcome or now.state}: too late to {verdict}.")
    return f"{now.outcome} already"


def settle_continuation(
    opened: "Ledgers", continuation: Continuation, verdict: Verdict, said: str | None
) -> str:
    if verdict not in SENDS_TO:
        raise Misconfigured(f"a continuation can be resolved, but there is nothing to {verdict}.")
    successor = said if verdict is Verdict.RESULT else None
    now = opened.continuations.decide(continuation.id, verdict, successor)
    if now is None:
        raise Misconfigured(f"{name_of(continuation)} is {continuation.state}: too late.")
    if verdict is Verdict.FAIL:
        opened.jobs.record("interaction", now.interaction_id, "failed", error_message=said)
    return now.state


def find(opened: "Ledgers", call_id: str) -> CallRecord | Continuation:
    """The call with that number, or the continuation with a c before it; else Misconfigured."""
    number = call_id.removeprefix("c")
    if number.isascii() and number.isdecimal() and len(number) < len(str(2**63)):
        of = opened.calls if number == call_id else opened.continuations
        if (found := of.get(int(number))) is not None:
            return found
    raise Misconfigured(f"no call {call_id!r} is known; see `gemhooks calls list`.")


def name_of(found: CallRecord | Continuation) -> str:
    if isinstance(found, CallRecord):
        return f"call {found.id} ({found.function})"
    return f"continuation c{found.id}"


def parsed(said: str | None) -> Any:
    try:
        return json.loads(said or "")
    except ValueError:
        return said


def row(call: CallRecord) -> dict[str, Any]:
    fields = asdict(call)
    return fields | {name: instant(fields[name]) for name in TIMES}


def row_of_continuation(continuation: Continuation) -> dict[str, Any]:
    return {
        "id": f"c{continuation.id}",
        "function": CONTINUATION,
        "state": continuation.state,
        "outcome": "",
        "created_at": instant(continuation.created_at),
        "interaction_id": continuation.interaction_id,
        "successor_id": continuation.successor_id,
        "turn": continuation.turn,
        "lost_at": instant(continuation.lost_at),
        "error": continuation.error,
    }
