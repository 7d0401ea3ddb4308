import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from google.cloud import ces_v1

from gemhooks.conversations import Chunk, Message, ToolCall, answer, respond, to_messages
from gemhooks.errors import LedgerUnavailable, Unanswered
from gemhooks.functions import Call, CallContext, Functions
from gemhooks.functions.once import Interaction, OnceOnly
from gemhooks.functions.records import CallClaim, CallRecord, Terms
from gemhooks.functions.results import Result
from gemhooks.functions.verdicts import Verdict
from gemhooks.ledger import Ledgers, open_ledger
from tests.gemhooks.queues.helpers import eventually

SESSION = "projects/p/locations/us/apps/a/sessions/s"
TOOL = "projects/p/locations/us/apps/a/tools/t"


class Shop:
    """A registry whose functions leave their effects in a list."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.functions = Functions()
        self.gate = threading.Event()
        self.gate.set()
        register = self.functions.function

        @register()
        def charge(order: str, cents: int, context: CallContext) -> dict[str, Any]:
            self.gate.wait(30)
            self.effects.append(f"{order}:{cents}")
            return {"cents": cents, "key": context.idempotency_key}

        @register(effect="idempotent")
        def look(order: str) -> str:
            self.effects.append(f"look {order}")
            return f"{order} is on its way"

        @register(approval=True)
        def refund(order: str) -> str:
            self.effects.append(f"refund {order}")
            return "refunded"

        @register()
        def fail() -> None:
            raise RuntimeError("out of paper")

        @register()
        def odd(kind: str) -> Any:
            return {"nan": float("nan"), "set": {1}, "none": None, "deep": _nested(60)}[kind]


def _nested(levels: int) -> list[Any]:
    return [_nested(levels - 1)] if levels else []


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def ledgers(tmp_path: Path) -> Iterator[Ledgers]:
    opened = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    yield opened
    opened.close()


def call(name: str, key: str | None = "c1", **args: Any) -> ToolCall:
    return ToolCall(id=key, tool=TOOL, display_name=name, args=args)


def response_of(shop: Shop, ledgers: Ledgers, *calls: ToolCall) -> Any:
    """What the last of *calls* is answered with."""
    return respond(calls, shop.functions, ledgers.calls, conversation=SESSION)[-1].response


def test_a_messages_calls_are_answered_in_one_message(shop: Shop, ledgers: Ledgers) -> None:
    message = Message(
        role="agent",
        chunks=(
            Chunk(text="One moment."),
            Chunk(tool_call=call("charge", "c1", order="o1", cents=100)),
            Chunk(tool_call=call("look", "c2", order="o1")),
        ),
    )

    answered = answer(message, shop.functions, ledgers.calls, conversation=SESSION)

    assert answered is not None
    same = {"tool": TOOL}
    output = {"cents": 100, "key": f"{SESSION}/c1"}
    assert answered.to_wire() == {
        "role": "user",
        "chunks": [
            {
                "toolResponse": {
                    "id": "c1",
                    "displayName": "charge",
                    "response": {"output": output},
                    **same,
                }
            },
            {
                "toolResponse": {
                    "id": "c2",
                    "displayName": "look",
                    "response": {"output": "o1 is on its way"},
                    **same,
                }
            },
        ],
    }


def test_a_message_without_calls_needs_no_answer(shop: Shop, ledgers: Ledgers) -> None:
    message = Message(role="agent", chunks=(Chunk(text="Hello"),))

    assert answer(message, shop.functions, ledgers.calls, conversation=SESSION) is None


def test_the_official_types_take_the_answer(shop: Shop, ledgers: Ledgers) -> None:
    calls = [call("charge", "c1", order="o1", cents=100), call("fail", "c2"), call("none", "c3")]

    responses = respond(calls, shop.functions, ledgers.calls, conversation=SESSION)

    wire = {"toolResponses": [each.to_wire() for each in responses]}
    official = ces_v1.ToolResponses.from_json(json.dumps(wire))
    assert [each.id for each in official.tool_responses] == ["c1", "c2", "c3"]


def test_a_call_that_was_answered_is_answered_again_and_not_run(
    shop: Shop, ledgers: Ledgers
) -> None:
    first = response_of(shop, ledgers, call("charge", order="o1", cents=100))
    again = response_of(shop, ledgers, call("charge", order="o1", cents=100))

    assert first == again
    assert shop.effects == ["o1:100"]


def test_the_same_id_in_another_conversation_is_another_call(shop: Shop, ledgers: Ledgers) -> None:
    for conversation in ("s1", "s2"):
        calls = [call("charge", order="o1", cents=100)]
        respond(calls, shop.functions, ledgers.calls, conversation=conversation)

    assert len(shop.effects) == 2


def test_a_repeated_call_in_one_message_is_run_once(shop: Shop, ledgers: Ledgers) -> None:
    twice = [call("charge", order="o1", cents=100)] * 2

    first, second = respond(twice, shop.functions, ledgers.calls, conversation=SESSION)

    assert first == second
    assert shop.effects == ["o1:100"]


@pytest.mark.parametrize("other", [call("charge", order="o2", cents=1), call("look", order="o1")])
def test_an_id_that_stood_for_another_call_gets_no_answer_of_that(
    shop: Shop, ledgers: Ledgers, other: ToolCall
) -> None:
    response_of(shop, ledgers, call("charge", order="o1", cents=100))

    response = response_of(shop, ledgers, other)

    assert "id was that of another call" in response["error"]
    assert shop.effects == ["o1:100"]


def test_two_who_answer_at_once_run_it_once(shop: Shop, ledgers: Ledgers) -> None:
    def one(_: int) -> Any:
        try:
            return response_of(shop, ledgers, call("charge", order="o1", cents=100))
        except Unanswered as error:
            return error.reason

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(one, range(8)))

    assert shop.effects == ["o1:100"]
    assert any(isinstance(each, dict) for each in outcomes)


def test_a_call_that_runs_elsewhere_is_not_waited_for(shop: Shop, ledgers: Ledgers) -> None:
    shop.gate.clear()
    waiting = call("charge", order="o1", cents=100)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(response_of, shop, ledgers, waiting)
        eventually(lambda: bool(ledgers.calls.of(SESSION)))
        with pytest.raises(Unanswered, match="running elsewhere") as caught:
            response_of(shop, ledgers, waiting)
        shop.gate.set()
        first.result(30)

    assert caught.value.after is None  # the schedule is hours; six short waits were minutes
    assert caught.value.at_least > 0
    assert response_of(shop, ledgers, waiting) == first.result()
    assert shop.effects == ["o1:100"]


def dies_in_the_middle(ledgers: Ledgers, dead: ToolCall, *, again: bool) -> None:
    """As a process does that claimed the call and was killed; its claim has run out."""
    arguments = dead.args or {}
    claimed = Call(dead.id or "", dead.display_name or "", arguments)
    terms = Terms(lease=0.0, again=again, approval=False)
    assert ledgers.calls.claim(SESSION, claimed, terms).granted


def test_after_a_crash_in_the_middle_nothing_runs_twice(shop: Shop, ledgers: Ledgers) -> None:
    dead = call("charge", "c1", order="o1", cents=100)
    dies_in_the_middle(ledgers, dead, again=False)
    other = call("charge", "c2", order="o2", cents=200)

    with pytest.raises(Unanswered, match="waits for a person"):
        response_of(shop, ledgers, dead, other)

    assert shop.effects == ["o2:200"]  # the other is recorded, and not run again
    with pytest.raises(Unanswered, match="waits for a person"):
        response_of(shop, ledgers, dead, other)
    assert shop.effects == ["o2:200"]


def test_after_a_crash_in_the_middle_what_may_run_again_does(shop: Shop, ledgers: Ledgers) -> None:
    dead = call("look", order="o1")
    dies_in_the_middle(ledgers, dead, again=True)

    assert response_of(shop, ledgers, dead) == {"output": "o1 is on its way"}


def test_a_call_that_a_person_must_approve_waits(shop: Shop, ledgers: Ledgers) -> None:
    with pytest.raises(Unanswered, match="call 1 waits for a person: see gemhooks calls list"):
        response_of(shop, ledgers, call("refund", order="o1"))

    assert shop.effects == []


def test_a_call_that_a_person_approved_is_run_when_it_is_asked_for_again(
    shop: Shop, ledgers: Ledgers
) -> None:
    waiting = call("refund", order="o1")
    with pytest.raises(Unanswered):
        response_of(shop, ledgers, waiting)
    ledgers.calls.decide(1, Verdict.APPROVE)

    assert response_of(shop, ledgers, waiting) == {"output": "refunded"}
    assert shop.effects == ["refund o1"]


class AwayLedger:
    """A database that does not answer."""

    def claim(self, interaction_id: str, call: Call, terms: Terms) -> CallClaim:
        raise LedgerUnavailable("gone")

    def record(
        self, interaction_id: str, call: Call, result: Result, *, result_url: str = ""
    ) -> CallRecord:
        raise LedgerUnavailable("gone")


def test_without_a_ledger_nothing_runs(shop: Shop) -> None:
    with pytest.raises(LedgerUnavailable):
        respond(
            [call("charge", order="o1", cents=100)],
            shop.functions,
            AwayLedger(),
            conversation=SESSION,
        )

    assert shop.effects == []


@pytest.mark.parametrize("name", ["charge", "refund"])
def test_a_call_without_an_id_does_not_run_what_must_not_run_twice(
    shop: Shop, ledgers: Ledgers, name: str
) -> None:
    response = response_of(shop, ledgers, call(name, None, order="o1", cents=100))

    assert "has no id" in response["error"]
    assert shop.effects == []


def test_a_call_without_an_id_runs_what_may_run_again(shop: Shop, ledgers: Ledgers) -> None:
    [first, second] = respond(
        [call("look", None, order="o1"), call("look", None, order="o2")],
        shop.functions,
        ledgers.calls,
        conversation=SESSION,
    )

    assert first.response == {"output": "o1 is on its way"}
    assert second.response == {"output": "o2 is on its way"}
    assert "id" not in first.to_wire()


@pytest.mark.parametrize(
    "name", ["get_wether", "", "__import__", "Charge", "os.system", "eval", "function", "run"]
)
def test_only_registered_functions_run_and_the_others_are_named(
    shop: Shop, ledgers: Ledgers, name: str
) -> None:
    response = response_of(shop, ledgers, ToolCall(id="c1", display_name=name))

    assert "There is no function" in response["error"]
    assert "charge" in response["error"]


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"order": "o1"},
        {"order": "o1", "cents": "100"},
        {"order": "o1", "cents": 1.5},
        {"order": "o1", "cents": True},
        {"order": None, "cents": 1},
        {"order": "o1", "cents": 1, "note": "x"},
        {"order": "o1", "cents": 1, "self": 1, "__class__": {}},
        {"order": "o1", "cents": 1, "context": {"interaction_id": "x"}},
        {"order": "x" * 2_000_000, "cents": 1},
    ],
)
def test_bad_arguments_are_told_and_nothing_runs(
    shop: Shop, ledgers: Ledgers, args: dict[str, Any]
) -> None:
    response = response_of(shop, ledgers, call("charge", **args))

    assert response["error"].startswith("Bad arguments")
    assert shop.effects == []


def test_a_whole_number_is_an_integer_since_a_struct_has_none(shop: Shop, ledgers: Ledgers) -> None:
    wire = {"id": "c1", "displayName": "charge", "args": {"order": "o1", "cents": 100}}
    official = ces_v1.ToolCall.from_json(json.dumps(wire))
    arrived = ToolCall.from_wire(
        ces_v1.ToolCall.to_json(official, always_print_fields_with_no_presence=False)
    )
    assert isinstance((arrived.args or {})["cents"], float)

    response_of(shop, ledgers, arrived)

    assert shop.effects == ["o1:100"]


@pytest.mark.parametrize(
    ("kind", "response"),
    [
        ("none", {"output": {"result": None}}),
        ("set", {"output": {"result": [1]}}),
    ],
)
def test_every_result_is_an_output(
    shop: Shop, ledgers: Ledgers, kind: str, response: dict[str, Any]
) -> None:
    assert response_of(shop, ledgers, call("odd", kind=kind)) == response


@pytest.mark.parametrize("kind", ["nan", "deep"])
def test_a_result_that_can_not_be_sent_is_an_error_and_not_run_again(
    shop: Shop, ledgers: Ledgers, kind: str
) -> None:
    for _ in range(2):
        response = response_of(shop, ledgers, call("odd", kind=kind))

        assert response["error"].startswith("The function ran, but its result is n")


def test_what_a_function_raises_is_an_error_that_the_agent_can_read(
    shop: Shop, ledgers: Ledgers
) -> None:
    assert response_of(shop, ledgers, call("fail")) == {"error": "RuntimeError: out of paper"}


def test_the_sub_agents_names_come_back(shop: Shop, ledgers: Ledgers) -> None:
    asked = ToolCall(
        id="c2",
        display_name="look",
        args={"order": "o1"},
        parent_tool_call_id="c1",
        agent_name="Contract Architect",
    )

    [response] = respond([asked], shop.functions, ledgers.calls, conversation=SESSION)

    assert response.parent_tool_call_id == "c1"
    assert response.agent_name == "Contract Architect"


def test_a_call_that_the_worker_answered_is_not_run_for_its_conversation(
    shop: Shop, ledgers: Ledgers
) -> None:
    arguments = {"order": "o1", "cents": 100}
    step = {"type": "function_call", "id": "c1", "name": "charge", "arguments": arguments}
    worker = OnceOnly(shop.functions, ledgers.calls)
    worker.settle(Interaction("v1_a"), [Call("c1", "charge", arguments)])
    [message] = to_messages({"id": "v1_a", "steps": [step]})

    answered = answer(message, shop.functions, ledgers.calls, conversation="v1_a")

    assert answered is not None
    assert shop.effects == ["o1:100"]


def test_a_conversation_must_have_a_name(shop: Shop, ledgers: Ledgers) -> None:
    with pytest.raises(ValueError, match="needs a name"):
        respond([call("look", order="o1")], shop.functions, ledgers.calls, conversation="")
