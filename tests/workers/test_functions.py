"""A waiting interaction gets its functions run and is continued, once."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Barrier, Event, Lock
from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from gemhooks import events, metrics
from gemhooks.consumers import Handled
from gemhooks.errors import (
    AnswerLost,
    LedgerUnavailable,
    NotYet,
    PublishFailed,
    Refused,
    Reject,
    Retry,
)
from gemhooks.functions import Call, CallContext, Functions, Result, marks
from gemhooks.functions.chains import SendState
from gemhooks.functions.once import OnceOnly
from gemhooks.functions.records import CallClaim, CallLedger, CallRecord, CallState, Terms
from gemhooks.functions.verdicts import Verdict
from gemhooks.gemini import Gemini
from gemhooks.ledger import Ledgers, open_ledger
from gemhooks.metrics import FunctionMetrics, StandingCalls
from gemhooks.results import ResultsStore
from gemhooks.testing import MemoryPublisher
from tests.services.waiting import wait_until
from tests.workers.gemini import MemoryGemini, fetched
from workers.called import CallAnnouncer
from workers.calling import parked
from workers.chains import Chains
from workers.continuing import MOST_REFUSALS, Continuer
from workers.functions import FunctionCaller, Limits

CONTINUED = Handled("continued")
OURS = {"webhook_config": {"uris": ["https://x/h"], "user_metadata": {"gemhooks": "started"}}}


@dataclass
class Effects:
    """What the functions did, a line each."""

    lines: list[str] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def add(self, line: str) -> None:
        with self.lock:
            self.lines.append(line)


@dataclass
class Bench:
    """A caller and all that it touches; *other* is the same in a second process."""

    caller: FunctionCaller
    other: FunctionCaller
    gemini: MemoryGemini
    functions: Functions
    publisher: MemoryPublisher
    ledgers: Ledgers
    effects: Effects

    def run(self, name: str = "v1_a", **metadata: Any) -> Handled:
        return self.caller.run(event(name, **metadata))

    def answers(self, number: int = -1) -> list[dict[str, Any]]:
        """What a continuation told the model."""
        found: list[dict[str, Any]] = self.gemini.created[number]["input"]
        return found

    def state(self, name: str = "v1_a") -> str:
        job = self.ledgers.jobs.get("interaction", name)
        return job.state if job else ""


def event(name: str, **metadata: Any) -> events.InteractionRequiresAction:
    data = {"id": name, "user_metadata": metadata}
    found = events.parse(orjson.dumps({"type": "interaction.requires_action", "data": data}))
    assert isinstance(found, events.InteractionRequiresAction)
    return found


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    effects, gemini, publisher = Effects(), MemoryGemini(), MemoryPublisher()
    functions = registry(effects)
    both = [open_ledger(f"sqlite:///{tmp_path}/ledger.db") for _ in range(2)]
    caller, other = (assembled(functions, gemini, publisher, each) for each in both)
    yield Bench(caller, other, gemini, functions, publisher, both[0], effects)
    for each in both:
        each.close()


def registry(effects: Effects) -> Functions:
    functions = Functions()

    @functions.function()
    def charge(order: str, cents: int, context: CallContext) -> dict[str, Any]:
        effects.add(f"{context.idempotency_key} {order} {cents}")
        return {"charged": cents}

    @functions.function(effect="idempotent")
    def look(what: str) -> str:
        effects.add(f"look {what}")
        return f"saw {what}"

    @functions.function()
    def broken() -> str:
        effects.add("broken")
        raise RuntimeError("out of order")

    return functions


def assembled(
    functions: Functions,
    gemini: MemoryGemini | Gemini,
    publisher: MemoryPublisher,
    ledgers: Ledgers,
) -> FunctionCaller:
    interactions = gemini.interactions if isinstance(gemini, Gemini) else gemini
    return FunctionCaller(
        interactions,
        Chains(ledgers.continuations, ledgers.jobs),
        OnceOnly(functions, ledgers.calls, margin=1.0),
        Continuer(
            interactions,
            ledgers.continuations,
            ledgers.jobs,
            tuple(functions.declarations()),
            wait=30.0,
            lease=30.0,
        ),
        CallAnnouncer(publisher, publish_timeout=0.5),
        ledgers.jobs,
        Limits(turns=5, seconds=3600.0),
    )


def charge(order: str = "o1", cents: int = 5) -> tuple[str, Any]:
    return "charge", {"order": order, "cents": cents}


def test_all_waiting_calls_are_answered_in_one_continuation_in_their_order(bench: Bench) -> None:
    calls = [charge("o1"), charge("o2"), ("look", {"what": "sky"}), ("nothing", {}), ("broken", {})]
    bench.gemini.wait_for("v1_a", *calls, **OURS)

    assert bench.run() == CONTINUED

    (request,) = bench.gemini.created
    assert request["previous_interaction_id"] == "v1_a"
    assert [each["call_id"] for each in request["input"]] == ["c0", "c1", "c2", "c3", "c4"]
    assert [each.get("is_error", False) for each in request["input"]] == [False] * 3 + [True] * 2
    assert "charge, look, broken" in request["input"][3]["result"]
    assert sorted(bench.effects.lines) == ["broken", "look sky", "v1_a/c0 o1 5", "v1_a/c1 o2 5"]


def test_what_a_turn_does_not_inherit_is_sent_again(bench: Bench) -> None:
    bench.gemini.wait_for(
        "v1_a",
        charge(),
        **OURS,
        tools=bench.functions.declarations(),
        system_instruction="Be brief.",
        generation_config={"temperature": 0},
    )

    bench.run()

    (request,) = bench.gemini.created
    assert request["model"] == "gemini-3.8-flash"
    assert request["background"] is True
    assert request["tools"] == bench.functions.declarations()
    assert request["system_instruction"] == "Be brief."
    assert request["generation_config"] == {"temperature": 0}
    assert request["webhook_config"]["uris"] == ["https://x/h"]
    key = request["webhook_config"]["user_metadata"]["gemhooks"]
    assert len(key) == 32


def test_a_function_that_had_to_be_called_was_called_once(bench: Bench) -> None:
    kept = {"generation_config": {"tool_choice": "any", "temperature": 0}}
    bench.ledgers.jobs.record("interaction", "v1_a", "started", ours=True, request=kept)
    bench.gemini.wait_for("v1_a", charge())

    bench.run()

    (request,) = bench.gemini.created
    successor = bench.ledgers.jobs.get("interaction", "v1_made_1")
    assert request["generation_config"] == {"temperature": 0}
    assert successor is not None
    assert (successor.request or {})["generation_config"] == {"temperature": 0}


def test_what_gemini_does_not_say_is_kept_from_the_start(bench: Bench) -> None:
    kept = {"system_instruction": "Be brief.", "webhook_config": {"uris": ["https://y"]}}
    bench.ledgers.jobs.record("interaction", "v1_a", "started", ours=True, request=kept)
    bench.gemini.wait_for("v1_a", charge())

    bench.run()
    bench.gemini.wait_for("v1_made_1", charge(), webhook_config=None, system_instruction=None)
    bench.run("v1_made_1")

    for request in bench.gemini.created:
        assert request["system_instruction"] == "Be brief."
        assert request["webhook_config"]["uris"] == ["https://y"]
        assert request["tools"] == bench.functions.declarations()


def test_only_calls_without_a_result_run_once_each(bench: Bench) -> None:
    def call(key: str) -> dict[str, Any]:
        return {"type": "function_call", "id": key, "name": "look", "arguments": {"what": key}}

    done = {"type": "function_result", "call_id": "a", "result": "saw a"}
    steps = [call("a"), done, {"type": "thought"}, call("b"), call("c"), {"type": "new"}, call("b")]
    bench.gemini.wait_for("v1_a", **OURS, steps=steps)

    with capture_logs() as logs:
        assert bench.run() == CONTINUED

    assert sorted(bench.effects.lines) == ["look b", "look c"]
    assert [each["call_id"] for each in bench.answers()] == ["b", "c"]
    assert [each["count"] for each in logs if each["event"] == "steps_not_understood"] == [1]


def test_the_same_interaction_told_again_runs_and_sends_nothing(bench: Bench) -> None:
    bench.gemini.wait_for("v1_a", charge(), **OURS)
    bench.run()

    assert bench.run() == CONTINUED
    assert bench.other.run(event("v1_a")) == CONTINUED

    assert len(bench.gemini.created) == 1
    assert len(bench.effects.lines) == 1


def test_two_workers_at_once_run_and_send_once(bench: Bench) -> None:
    bench.gemini.wait_for("v1_a", *(charge(f"o{number}") for number in range(5)), **OURS)
    both = Barrier(2)

    def told(caller: FunctionCaller) -> Handled:
        both.wait(60)
        return eventually(caller)

    with ThreadPoolExecutor(2) as pool:
        ends = set(pool.map(told, (bench.caller, bench.other)))

    assert ends == {CONTINUED}
    assert len(bench.gemini.created) == 1
    assert len(bench.answers()) == 5
    assert len(set(bench.effects.lines)) == len(bench.effects.lines) == 5


def test_nothing_is_sent_while_a_sibling_runs_elsewhere(bench: Bench) -> None:
    started, go_on = Event(), Event()

    @bench.functions.function()
    def slow() -> str:
        started.set()
        go_on.wait(60)
        return "done"

    bench.gemini.wait_for("v1_a", ("slow", {}), charge(), **OURS)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(bench.run)
        started.wait(60)
        with pytest.raises(Retry, match="elsewhere") as caught:
            bench.other.run(event("v1_a"))
        go_on.set()
        assert first.result(60) == CONTINUED

    assert caught.value.after is None  # the schedule is hours; six short waits were minutes
    assert caught.value.at_least > 0
    assert len(bench.gemini.created) == 1


def test_what_we_did_not_start_is_left_alone(bench: Bench) -> None:
    bench.gemini.wait_for("v1_a", charge())

    assert bench.run(gemhooks="started") == Handled("not_ours")

    assert not bench.gemini.created
    assert not bench.effects.lines
    assert not bench.ledgers.calls.list()
    assert bench.state() == "requires_action"


def test_the_continuation_of_another_gemhooks_is_left_alone(bench: Bench) -> None:
    theirs = {"user_metadata": {"gemhooks": "0" * 32}}
    bench.gemini.wait_for("v1_a", charge(), webhook_config=theirs)

    assert bench.run() == Handled("not_ours")


def test_everything_is_answered_where_the_setting_says_so(bench: Bench) -> None:
    chains = replace(bench.caller.chains, answer_all=True)
    bench.caller = replace(bench.caller, chains=chains)
    bench.gemini.wait_for("v1_a", charge())

    assert bench.run() == CONTINUED


def test_an_interaction_that_is_registered_is_ours(bench: Bench) -> None:
    bench.ledgers.jobs.record("interaction", "v1_a", "started", ours=True)
    bench.gemini.wait_for("v1_a", charge())

    assert bench.run() == CONTINUED


def test_the_successor_is_ours_and_its_calls_are_answered(bench: Bench) -> None:
    bench.gemini.wait_for("v1_a", charge(), **OURS)
    bench.run()
    assert bench.state() == "continued"
    assert bench.state("v1_made_1") == "started"
    bench.gemini.wait_for("v1_made_1", charge("o2"))

    assert bench.run("v1_made_1") == CONTINUED

    assert bench.effects.lines == ["v1_a/c0 o1 5", "v1_made_1/c0 o2 5"]
    assert bench.gemini.created[1]["previous_interaction_id"] == "v1_made_1"


@pytest.mark.parametrize("status", ["in_progress", "queued", "brand_new", None, 7])
def test_an_event_that_is_ahead_is_waited_for(bench: Bench, status: Any) -> None:
    bench.gemini.wait_for("v1_a", charge(), **OURS, status=status)

    with pytest.raises(NotYet, match=str(status)):
        bench.run()


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "incomplete"])
def test_an_event_that_is_behind_does_nothing(bench: Bench, status: Any) -> None:
    bench.gemini.wait_for("v1_a", charge(), **OURS, status=status)

    assert bench.run() == Handled("not_waiting")

    assert not bench.effects.lines


def test_a_chain_that_goes_round_ends_in_a_dead_letter(bench: Bench) -> None:
    name = "v1_a"
    bench.gemini.wait_for(name, charge(), **OURS)
    for turn in range(1, 6):
        bench.run(name)
        name = f"v1_made_{turn}"
        bench.gemini.wait_for(name, charge())

    with pytest.raises(Reject, match="5 turns: see GEMHOOKS_MAX_TURNS"):
        bench.run(name)

    assert len(bench.effects.lines) == len(bench.gemini.created) == 5


def test_a_chain_that_lasts_too_long_ends_in_a_dead_letter(bench: Bench) -> None:
    bench.gemini.wait_for("v1_a", charge(), **OURS)
    bench.run()
    bench.gemini.wait_for("v1_made_1", charge())
    bench.caller = replace(bench.caller, limits=Limits(turns=5, seconds=-1.0))

    with pytest.raises(Reject, match="GEMHOOKS_CHAIN_TIMEOUT"):
        bench.run("v1_made_1")


@pytest.mark.parametrize(
    "error", [Retry("Gemini answered 500", at_least=7.0), Refused("refused (403)", status=403)]
)
def test_a_refused_continuation_is_repeated_with_the_stored_results(
    bench: Bench, error: Retry | Refused
) -> None:
    bench.gemini.wait_for("v1_a", charge(), charge("o2"), **OURS)
    bench.gemini.script = [error] * 3

    for _ in range(3):
        with pytest.raises(type(error)) as caught:
            bench.run()
        assert caught.value is error
    assert bench.run() == CONTINUED

    assert len(bench.effects.lines) == 2
    assert all(each == bench.gemini.created[0] for each in bench.gemini.created)


def test_a_bad_request_is_tried_some_times_with_the_stored_results(bench: Bench) -> None:
    bench.gemini.wait_for("v1_a", charge(), **OURS)
    bench.gemini.script = [Refused("Gemini answered 400: turns", status=400)] * 3

    for _ in range(3):
        with pytest.raises(Retry, match="400: turns") as caught:
            bench.run()
        assert caught.value.most == MOST_REFUSALS
    assert bench.run() == CONTINUED

    assert len(bench.effects.lines) == 1


def test_a_lost_answer_is_not_sent_again_but_waited_for_and_then_parked(bench: Bench) -> None:
    bench.gemini.wait_for("v1_a", charge(), **OURS)
    bench.gemini.script = [AnswerLost("ReadTimeout")]

    with pytest.raises(Retry, match="waiting for the event") as caught:
        bench.run()
    assert caught.value.after == 30.0
    with pytest.raises(Retry, match="lost") as other:
        bench.other.run(event("v1_a"))
    assert other.value.after is None  # on the whole schedule, as what others have in hand
    impatient = replace(bench.caller.continuer, wait=0.0)
    bench.caller = replace(bench.caller, continuer=impatient)

    assert bench.run() == Handled("parked")
    assert len(bench.gemini.created) == 1
    (parked,) = bench.ledgers.continuations.list(SendState.UNKNOWN)
    assert parked.interaction_id == "v1_a"


@pytest.mark.parametrize("echo", ["interaction", "event", "previous"])
def test_the_event_of_a_lost_continuation_is_recognised(bench: Bench, echo: str) -> None:
    def take_it_and_break(gemini: MemoryGemini, wanted: dict[str, Any]) -> Any:
        gemini.accept(wanted)
        raise AnswerLost("ReadTimeout")

    bench.gemini.wait_for("v1_a", charge(), **OURS)
    bench.gemini.script = [take_it_and_break]
    with pytest.raises(Retry):
        bench.run()
    key = bench.gemini.created[0]["webhook_config"]["user_metadata"]["gemhooks"]
    more = {} if echo == "interaction" else {"webhook_config": None}
    bench.gemini.wait_for("v1_made_1", charge("o2"), **more)

    told = {"gemhooks": key} if echo == "event" else {}
    assert bench.run("v1_made_1", **told) == CONTINUED
    assert bench.run("v1_a") == CONTINUED

    assert bench.effects.lines == ["v1_a/c0 o1 5", "v1_made_1/c0 o2 5"]
    assert len(bench.gemini.created) == 2


def test_any_event_of_the_successor_tells_that_it_did_start(bench: Bench) -> None:
    bench.gemini.wait_for("v1_a", charge(), **OURS)
    bench.gemini.script = [AnswerLost("ReadTimeout")]
    with pytest.raises(Retry):
        bench.run()
    key = bench.gemini.created[0]["webhook_config"]["user_metadata"]["gemhooks"]

    bench.caller.chains.notice("v1_b", {"gemhooks": key})

    assert bench.run() == CONTINUED
    assert bench.state() == "continued"
    job = bench.ledgers.jobs.get("interaction", "v1_b")
    assert job is not None
    assert job.ours


def test_of_two_successors_one_is_acted_on(bench: Bench) -> None:
    bench.gemini.wait_for("v1_a", charge(), **OURS)
    bench.run()
    bench.gemini.accept(bench.gemini.created[0])  # Gemini took the request twice
    bench.gemini.wait_for("v1_made_1", charge("o2"))
    bench.gemini.wait_for("v1_made_2", charge("o2"))

    assert bench.run("v1_made_2") == Handled("superseded")
    assert bench.run("v1_made_1") == CONTINUED

    assert bench.effects.lines == ["v1_a/c0 o1 5", "v1_made_1/c0 o2 5"]


def test_the_other_successor_may_be_the_one_that_was_seen_first(bench: Bench) -> None:
    def seen_before_the_answer(gemini: MemoryGemini, wanted: dict[str, Any]) -> Any:
        key = wanted["webhook_config"]["user_metadata"][marks.MARK]
        bench.other.chains.notice("v1_first", {marks.MARK: key})
        return gemini.accept(wanted)

    bench.gemini.wait_for("v1_a", charge(), **OURS)
    bench.gemini.script = [seen_before_the_answer]

    assert bench.run() == CONTINUED
    bench.gemini.wait_for("v1_made_1", charge())

    assert bench.run("v1_made_1") == Handled("superseded")


def test_a_call_whose_worker_died_in_the_middle_is_parked_and_its_siblings_are_kept(
    bench: Bench,
) -> None:
    bench.gemini.wait_for("v1_a", charge(), ("look", {"what": "sky"}), **OURS)
    die_over(bench, "c0", "c1")

    assert eventually(bench.caller) == Handled("parked")
    assert bench.run() == Handled("parked")

    assert bench.effects.lines == ["look sky"]
    assert not bench.gemini.created
    (unknown,) = bench.ledgers.calls.list(CallState.UNKNOWN)
    assert (unknown.call_id, unknown.function) == ("c0", "charge")


def die_over(bench: Bench, *calls: str) -> None:
    """Leave behind what a worker leaves that dies right after its claims."""
    for key in calls:
        step = next(s for s in bench.gemini.interactions["v1_a"]["steps"] if s["id"] == key)
        call = Call(key, step["name"], step["arguments"])
        bench.ledgers.calls.claim("v1_a", call, Terms(lease=0.05, again=False, approval=False))


def eventually(caller: FunctionCaller) -> Handled:
    """What the interaction comes to once others are done with it."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return caller.run(event("v1_a"))
        except Retry:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_calls_are_announced_with_their_results_under_one_id(bench: Bench) -> None:
    bench.gemini.wait_for("v1_a", charge(), ("nothing", {}), **OURS)
    bench.gemini.script = [Retry("Gemini answered 500")]
    with pytest.raises(Retry):
        bench.run()
    bench.run()

    told = [events.parse(each.body) for each in bench.publisher.messages]
    first = told[0]
    assert isinstance(first, events.FunctionCalled)
    assert (first.data.id, first.data.call_id, first.data.function) == ("v1_a", "c0", "charge")
    assert (first.data.outcome, first.data.result) == ("ok", {"charged": 5})
    assert first.data.user_metadata == {"gemhooks": "started"}
    ids = [each.id for each in bench.publisher.messages]
    assert ids == ["v1_a/function.called/c0", "v1_a/function.called/c1"] * 2


def test_what_was_not_announced_is_not_sent_yet_and_nothing_is_run_again(bench: Bench) -> None:
    bench.gemini.wait_for("v1_a", charge(), **OURS)
    bench.publisher.error = PublishFailed("nacked")
    with pytest.raises(PublishFailed):
        bench.run()
    bench.publisher.error = None

    assert bench.run() == CONTINUED
    assert len(bench.effects.lines) == 1


def test_an_interaction_without_model_or_agent_is_a_dead_letter(bench: Bench) -> None:
    bench.gemini.wait_for("v1_a", charge(), **OURS, model=None)

    with pytest.raises(Reject, match="neither model nor agent"):
        bench.run()


def test_only_what_was_declared_can_be_called(bench: Bench) -> None:
    tools = [each for each in bench.functions.declarations() if each["name"] == "look"]
    bench.gemini.wait_for("v1_a", charge(), ("look", {"what": "sky"}), **OURS, tools=tools)

    bench.run()

    assert bench.effects.lines == ["look sky"]
    assert bench.answers()[0]["is_error"]


def test_a_fetched_id_that_is_odd_is_kept_as_it_is(bench: Bench) -> None:
    bench.gemini.wait_for("v1_\0", charge(), **OURS)

    assert bench.run("v1_\0") == CONTINUED
    assert bench.run("v1_\0") == CONTINUED

    assert fetched(bench.gemini.interactions["v1_\0"]).id == "v1_\0"
    assert len(bench.gemini.created) == 1


def test_a_call_that_needs_a_yes_is_parked_until_a_person_decides(bench: Bench) -> None:
    @bench.functions.function(approval=True)
    def refund(order: str) -> str:
        bench.effects.add(f"refund {order}")
        return "refunded"

    def refund_of(order: Any) -> tuple[str, Any]:
        return "refund", {"order": order}

    bench.gemini.wait_for("v1_a", refund_of("o1"), charge(), refund_of("o2"), refund_of(7), **OURS)

    assert bench.run() == Handled("parked")
    second, first = bench.ledgers.calls.list(CallState.APPROVAL)
    bench.ledgers.calls.decide(first.id, Verdict.APPROVE)
    assert bench.run() == Handled("parked")
    bench.ledgers.calls.decide(second.id, Verdict.REJECT, "too much")
    assert bench.run() == CONTINUED

    assert bench.effects.lines == ["v1_a/c1 o1 5", "refund o1"]
    told = [(each["result"], each.get("is_error", False)) for each in bench.answers()]
    assert told[0] == ("refunded", False)
    assert told[2] == ("too much", True)
    assert told[3][1]  # arguments that don't fit are no person's business


def test_a_call_that_a_person_lets_run_again_runs_once_more(bench: Bench) -> None:
    bench.gemini.wait_for("v1_a", charge(), **OURS)
    die_over(bench, "c0")
    assert eventually(bench.caller) == Handled("parked")
    (unknown,) = bench.ledgers.calls.list(CallState.UNKNOWN)

    bench.ledgers.calls.decide(unknown.id, Verdict.RERUN)

    assert bench.run() == CONTINUED
    assert len(bench.effects.lines) == 1


def test_a_continuation_that_a_person_lets_go_again_is_sent_again(bench: Bench) -> None:
    bench.gemini.wait_for("v1_a", charge(), **OURS)
    bench.gemini.script = [AnswerLost("ReadTimeout")]
    with pytest.raises(Retry):
        bench.run()
    impatient = replace(bench.caller.continuer, wait=0.0)
    bench.caller = replace(bench.caller, continuer=impatient)
    assert bench.run() == Handled("parked")
    (parked,) = bench.ledgers.continuations.list(SendState.UNKNOWN)

    bench.ledgers.continuations.decide(parked.id, Verdict.RERUN)

    assert bench.run() == CONTINUED
    assert bench.gemini.created[0] == bench.gemini.created[1]
    assert len(bench.effects.lines) == 1


def test_calls_are_counted_and_told_without_their_arguments(bench: Bench) -> None:
    registry = CollectorRegistry()
    once = replace(bench.caller.once, metrics=FunctionMetrics(registry))
    bench.caller = replace(bench.caller, once=once)
    bench.gemini.wait_for("v1_a", charge("secret"), ("made up", {"x": "secret"}), **OURS)

    with capture_logs() as logs:
        bench.run()

    told = [each for each in logs if each["event"] == "function_called"]
    assert {(each["function"], each["outcome"]) for each in told} == {
        ("charge", "ok"),
        ("made up", "unknown_function"),
    }
    assert "secret" not in str(logs)
    for labels in (
        {"function": "charge", "outcome": "ok"},
        {"function": "other", "outcome": "unknown_function"},
    ):
        assert registry.get_sample_value("gemhooks_function_calls_total", labels) == 1


def test_arguments_are_logged_only_when_asked_for(bench: Bench) -> None:
    bench.caller = replace(bench.caller, once=replace(bench.caller.once, show_arguments=True))
    bench.gemini.wait_for("v1_a", charge("o7"), **OURS)

    with capture_logs() as logs:
        bench.run()

    (told,) = [each for each in logs if each["event"] == "function_called"]
    assert told["arguments"] == {"order": "o7", "cents": 5}


def test_what_waits_for_a_person_is_counted_whenever_somebody_looks(bench: Bench) -> None:
    registry = CollectorRegistry()
    StandingCalls(registry, parked=lambda: parked(bench.ledgers), abandoned=lambda: 3)

    @bench.functions.function(approval=True)
    def refund() -> None: ...

    bench.gemini.wait_for("v1_a", ("refund", {}), **OURS)
    bench.run()

    def count(reason: str) -> float | None:
        return registry.get_sample_value("gemhooks_function_calls_parked", {"reason": reason})

    assert [count(each) for each in ("approval", "unknown", "continuation")] == [1, 0, 0]
    assert registry.get_sample_value("gemhooks_function_calls_abandoned_total") == 3


def test_a_silent_database_holds_up_no_scrape_and_is_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "PATIENCE", 0.01)
    registry, speaks, asked = CollectorRegistry(), threading.Event(), list[int]()

    def silent() -> dict[str, int]:
        asked.append(1)
        assert speaks.wait(60)
        return {"approval": 7}

    StandingCalls(registry, parked=silent, abandoned=lambda: 3)

    def count() -> float | None:
        labels = {"reason": "approval"}
        return registry.get_sample_value("gemhooks_function_calls_parked", labels)

    assert count() is None
    wait_until(lambda: asked, "the database is asked")
    assert count() is None
    assert len(asked) == 1
    speaks.set()
    monkeypatch.setattr(metrics, "PATIENCE", 60)
    assert count() == 7


def test_a_result_that_is_too_long_is_stored_whole_and_referenced(
    bench: Bench, tmp_path: Path
) -> None:
    rows = [{"row": number} for number in range(40_000)]

    @bench.functions.function()
    def report() -> list[dict[str, int]]:
        return rows

    store = ResultsStore(str(tmp_path / "results"))
    bench.caller = replace(bench.caller, once=replace(bench.caller.once, store=store))
    bench.gemini.wait_for("v1_a", ("report", {}), **OURS)

    assert bench.run() == CONTINUED

    event = events.parse(bench.publisher.messages[0].body)
    assert isinstance(event, events.FunctionCalled)
    assert (event.data.outcome, event.data.is_error) == ("too_large", False)
    stored = Path(event.data.result_url.removeprefix("file://"))
    assert orjson.loads(stored.read_bytes()) == {"result": rows}
    assert "[cut by gemhooks" in bench.answers()[0]["result"]


def test_many_long_results_fit_into_one_request(bench: Bench) -> None:
    @bench.functions.function()
    def long(length: int) -> str:
        return "é" * length

    lengths = [100_000] * 40 + [10]
    bench.gemini.wait_for("v1_a", *(("long", {"length": each}) for each in lengths), **OURS)

    assert bench.run() == CONTINUED

    assert len(orjson.dumps(bench.gemini.created[0])) < 4 * 1024 * 1024
    told = [each["result"] for each in bench.answers()]
    assert all("[cut by gemhooks" in each for each in told[:-1])
    assert told[-1] == "é" * 10


def test_a_full_disk_does_not_make_a_function_run_again(bench: Bench) -> None:
    class Full:
        def write(self, kind: str, name: str, suffix: str, content: bytes, /) -> str:
            raise Retry("the disk is full")

    @bench.functions.function()
    def report() -> str:
        bench.effects.add("report")
        return "x" * 1_000_000

    bench.caller = replace(bench.caller, once=replace(bench.caller.once, store=Full()))
    bench.gemini.wait_for("v1_a", ("report", {}), **OURS)

    assert bench.run() == CONTINUED
    assert bench.effects.lines == ["report"]
    assert bench.ledgers.calls.of("v1_a")[0].result_url == ""


@dataclass
class Shaky:
    """A CallLedger whose database goes away for a while after each run."""

    real: CallLedger
    away: int

    def claim(self, interaction_id: str, call: Call, terms: Terms) -> CallClaim:
        return self.real.claim(interaction_id, call, terms)

    def record(
        self, interaction_id: str, call: Call, result: Result, *, result_url: str = ""
    ) -> CallRecord:
        self.away -= 1
        if self.away >= 0:
            raise LedgerUnavailable("restarting")
        return self.real.record(interaction_id, call, result, result_url=result_url)


def test_what_was_done_is_recorded_once_the_database_is_back(bench: Bench) -> None:
    shaky = Shaky(bench.ledgers.calls, away=1)
    bench.caller = replace(bench.caller, once=replace(bench.caller.once, ledger=shaky, margin=20.0))
    bench.gemini.wait_for("v1_a", charge(), **OURS)

    assert bench.run() == CONTINUED

    assert len(bench.effects.lines) == 1
    assert shaky.away < 0
