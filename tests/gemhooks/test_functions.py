"""What a model may call, and what it reads in answer to whatever it sends."""

import asyncio
import contextlib
import contextvars
import dataclasses
import datetime as dt
import enum
import inspect
import itertools
import json
import math
import resource
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from google.genai import interactions as google
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, Field
from structlog.testing import capture_logs

from gemhooks.functions import (
    Call,
    CallContext,
    Effect,
    Functions,
    Outcome,
    Result,
    continuation,
    declared_names,
    waiting_calls,
)

CONTEXT = CallContext("v1_i", "c1", {"job": "7"})
SOON = 2.0  # seconds: a deadline before which a coroutine has begun


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    title: str
    colour: Colour = Colour.RED


@dataclasses.dataclass
class Order:
    items: list[Item]
    count: int = 1


class Node(BaseModel):
    children: list["Node"] = []


def run(functions: Functions, name: str, arguments: Any, **more: Any) -> Result:
    return functions.run(Call("c1", name, arguments), context=CONTEXT, **more)


def returned(make: Callable[[], object], **more: Any) -> Result:
    """The result of a function that returns what *make* makes, seen to run exactly once."""
    functions, runs = Functions(**more), itertools.count()

    @functions.function()
    def give() -> object:
        next(runs)
        return make()

    result = run(functions, "give", {})
    assert next(runs) == 1
    assert_sendable(result)
    return result


def assert_sendable(result: Result) -> None:
    """Strict JSON in UTF-8, and what Google's own client takes and does not change."""
    item = result.item()
    json.dumps(item, ensure_ascii=False, allow_nan=False).encode()
    step = google.FunctionResultStep.model_validate(item)
    assert step.model_dump(mode="json", exclude_unset=True) == item


@dataclasses.dataclass
class Shop:
    functions: Functions
    charged: list[tuple[str, int]]


@pytest.fixture
def shop() -> Shop:
    functions, charged = Functions(), list[tuple[str, int]]()

    @functions.function(timeout=5)
    def charge(order_id: str, cents: Annotated[int, Field(ge=0)]) -> dict[str, int]:
        """Take money."""
        charged.append((order_id, cents))
        return {"charged": cents}

    @functions.function(effect="idempotent")
    def get_weather(city: str) -> str:
        return f"fine in {city}"

    return Shop(functions, charged)


# Registration


def test_a_function_stays_what_it_is_and_can_be_looked_up() -> None:
    functions = Functions()

    @functions.function(timeout=2, effect="idempotent", name="twice_as_much")
    def double(x: int) -> int:
        return 2 * x

    found = functions.get("twice_as_much")
    assert double(2) == 4
    assert found is not None
    assert (found.timeout, found.effect) == (2, Effect.IDEMPOTENT)
    assert functions.get("double") is None


def test_a_name_twice_is_an_error_at_once(shop: Shop) -> None:
    with pytest.raises(ValueError, match="'charge' is registered already"):
        shop.functions.function(name="charge")(lambda: None)


@pytest.mark.parametrize("name", ["a.b", "a-b", "server:tool", "_", "a" * 128])
def test_a_name_that_the_api_takes_is_taken(name: str) -> None:
    functions = Functions()
    functions.function(name=name)(lambda: None)

    assert functions.get(name) is not None


@pytest.mark.parametrize("name", ["", "1a", "-a", "a b", "ä", "a" * 129, "a\n", "<lambda>"])
def test_a_name_that_the_api_refuses_is_an_error_at_once(name: str) -> None:
    with pytest.raises(ValueError, match="the API takes"):
        Functions().function(name=name)(lambda: None)


@pytest.mark.parametrize("timeout", [0, -1, math.inf, math.nan])
def test_a_deadline_is_always_a_real_one(timeout: float) -> None:
    with pytest.raises(ValueError, match="'f': timeout"):
        Functions().function(name="f", timeout=timeout)(lambda: None)


def test_an_unknown_effect_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="'f': effect"):
        Functions().function(name="f", effect="twice")(lambda: None)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def untyped(x) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    pass


def stars(*args: int) -> None:
    pass


def keywords(**more: int) -> None:
    pass


def by_position(x: int, /) -> None:
    pass


def unclear(x: "Nowhere") -> None:  # type: ignore[name-defined] # pyright: ignore[reportUndefinedVariable] # noqa: F821
    pass


def unspeakable(x: threading.Lock) -> None:
    pass


def endless(x: Node) -> None:
    pass


def elsewhere(x: Annotated[int, Field(default=3)]) -> None:
    pass


UNFIT: list[Callable[..., None]] = [
    untyped,
    stars,
    keywords,
    by_position,
    unclear,
    unspeakable,
    endless,
    elsewhere,
]


@pytest.mark.parametrize("body", UNFIT, ids=lambda body: body.__name__)
def test_a_signature_that_a_model_cannot_serve_is_an_error_that_names_it(
    body: Callable[..., None],
) -> None:
    with pytest.raises(TypeError, match=f"function '{body.__name__}'"):
        Functions().function()(body)


# Declarations


def buy(
    context: CallContext,
    order: Order,
    when: dt.date,
    colours: list[Colour],
    *,
    size: Literal["s", "m"] = "m",
    note: str | None = None,
    self: int = 1,
    ratio: float = math.inf,
) -> None:
    """Buy things.

    At once, without asking.

    Args:
        order: what is wanted,
            in full
        size (Literal): how large
        nobody: unknown

    Returns:
        Nothing at all.
    """


def test_a_declaration_says_what_signature_and_docstring_say() -> None:
    functions = Functions()
    functions.function()(buy)
    (declared,) = functions.declarations()
    properties = declared["parameters"]["properties"]

    assert declared["type"] == "function"
    assert declared["name"] == "buy"
    assert declared["description"] == "Buy things.\n\nAt once, without asking."
    assert declared["parameters"]["required"] == ["order", "when", "colours"]
    assert "context" not in properties
    assert properties["order"]["description"] == "what is wanted, in full"
    item = properties["order"]["properties"]["items"]["items"]
    assert item["properties"]["title"] == {"type": "string"}
    assert item["properties"]["colour"]["enum"] == ["red", "blue"]
    assert properties["when"] == {"type": "string", "format": "date"}
    assert properties["colours"]["items"] == {"enum": ["red", "blue"], "type": "string"}
    assert properties["size"] == {
        "default": "m",
        "enum": ["s", "m"],
        "type": "string",
        "description": "how large",
    }
    assert properties["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert properties["ratio"] == {"type": "number"}
    text = json.dumps(declared, allow_nan=False)
    assert "$ref" not in text
    assert "$defs" not in text


def test_googles_client_takes_the_declarations(shop: Shop) -> None:
    shop.functions.function()(buy)
    declared = shop.functions.declarations()
    sent = google.CreateModelInteraction.model_validate(
        {"model": "gemini-3.8-flash", "input": "hi", "tools": declared}
    )

    assert all(isinstance(tool, google.Function) for tool in sent.tools or ())
    assert sent.model_dump(mode="json", exclude_unset=True)["tools"] == declared


def test_a_function_without_parameters_declares_none() -> None:
    """Gemini refuses the schema of an object that has no properties (400)."""
    functions = Functions()
    functions.function(name="now")(lambda: "noon")

    assert functions.declarations() == [{"type": "function", "name": "now"}]
    google.Function.model_validate(functions.declarations()[0])


@pytest.mark.parametrize("arguments", [{}, None])
def test_a_function_without_parameters_may_be_called_with_nothing(arguments: Any) -> None:
    functions = Functions()
    functions.function(name="now")(lambda: "noon")

    assert run(functions, "now", arguments).result == "noon"
    assert run(functions, "now", []).outcome == Outcome.BAD_ARGUMENTS
    assert run(functions, "now", {"x": 1}).outcome == Outcome.BAD_ARGUMENTS


def test_a_single_choice_is_an_enum_too() -> None:
    functions = Functions()

    @functions.function()
    def take(unit: Literal["C"]) -> None:
        pass

    (declared,) = functions.declarations()
    assert declared["parameters"]["properties"]["unit"] == {"type": "string", "enum": ["C"]}


# The waiting calls


def call_step(key: Any, name: Any = "f", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": key, "name": name, "arguments": {}, **more}


def test_only_calls_without_a_later_result_wait_once_each() -> None:
    waiting = waiting_calls(
        [
            {"type": "user_input", "content": []},
            call_step("a"),
            {"type": "function_result", "call_id": "a", "result": "done"},
            {"type": "thought", "signature": "x"},
            call_step("b", arguments={"x": 1}, signature="s"),
            call_step("c"),
            {"type": "a_step_of_tomorrow"},
            call_step("b", arguments={"x": 2}),
        ]
    )

    assert [(each.id, each.arguments) for each in waiting.calls] == [("b", {"x": 1}), ("c", {})]
    assert waiting.ignored == 1


def test_a_result_before_its_call_answers_nothing() -> None:
    waiting = waiting_calls([{"type": "function_result", "call_id": "a"}, call_step("a")])

    assert [each.id for each in waiting.calls] == ["a"]


@pytest.mark.parametrize(
    "step",
    [
        None,
        5,
        "function_call",
        [],
        {},
        {"type": None},
        {"type": ["function_call"]},
        {"type": "function_call"},
        call_step(None),
        call_step(""),
        call_step(5),
        call_step("\ud800"),
        call_step("a", None),
        call_step("a", 5),
        {"type": "function_result"},
        {"type": "function_result", "call_id": {}},
    ],
)
def test_a_malformed_step_is_counted_and_the_others_still_wait(step: Any) -> None:
    waiting = waiting_calls([step, call_step("z")])

    assert [each.id for each in waiting.calls] == ["z"]
    assert waiting.ignored == 1


@pytest.mark.parametrize(("more", "arguments"), [({}, {}), ({"arguments": None}, None)])
def test_arguments_that_are_left_out_are_none_and_null_is_null(
    more: dict[str, Any], arguments: Any
) -> None:
    waiting = waiting_calls([{"type": "function_call", "id": "a", "name": "", **more}])

    assert waiting.calls == (Call("a", "", arguments),)


def test_no_steps_no_calls() -> None:
    assert waiting_calls(None).calls == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
STEPS = JSON | st.fixed_dictionaries(
    {"type": st.sampled_from(["function_call", "function_result", "thought", "?"])},
    optional={
        "id": JSON | st.sampled_from("ab"),
        "name": JSON | st.just("f"),
        "call_id": JSON | st.sampled_from("ab"),
        "arguments": JSON,
    },
)


@given(st.lists(STEPS))
def test_any_steps_are_read_without_an_error(steps: list[Any]) -> None:
    waiting = waiting_calls(steps)
    ids = [each.id for each in waiting.calls]

    assert len(set(ids)) == len(ids)
    assert len(ids) + waiting.ignored <= len(steps)


# Names


def test_an_unknown_name_is_answered_with_the_known_ones_and_the_rest_runs(shop: Shop) -> None:
    steps = [call_step(f"c{n}", name) for n, name in enumerate(["get_wether", "", "__import__"])]
    steps += [call_step("c3", "Charge")]
    steps += [call_step("c4", "charge", arguments={"order_id": "o1", "cents": 100})]
    calls = waiting_calls(steps).calls
    results = [shop.functions.run(each, context=CONTEXT) for each in calls]
    body = continuation({"id": "i", "model": "m", "steps": steps}, results)

    assert shop.charged == [("o1", 100)]
    assert [each.outcome for each in results] == [Outcome.UNKNOWN_FUNCTION] * 4 + [Outcome.OK]
    for each in results[:4]:
        assert each.is_error
        assert each.result.endswith("Known functions: charge, get_weather")
    assert [each["call_id"] for each in body["input"]] == ["c0", "c1", "c2", "c3", "c4"]
    google.CreateModelInteraction.model_validate(body)


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "eval",
        "print",
        "register",
        "run",
        "_answer",
        "__class__",
        "__init__",
        "charge.__call__",
        "charge ",
        "CHARGE",
        "c\u0127arge",
        "\ud800",
        "x" * 1_000_000,
    ],
)
def test_only_exactly_registered_names_are_functions(shop: Shop, name: str) -> None:
    result = run(shop.functions, name, {"order_id": "o", "cents": 1})

    assert result.outcome == Outcome.UNKNOWN_FUNCTION
    assert len(result.result) < 1000
    assert shop.charged == []
    assert_sendable(result)


def test_a_function_that_this_interaction_was_not_given_is_unknown(shop: Shop) -> None:
    declared = declared_names({"tools": [{"type": "function", "name": "get_weather"}]})
    result = run(shop.functions, "charge", {"order_id": "o", "cents": 1}, declared=declared)

    assert result.outcome == Outcome.UNKNOWN_FUNCTION
    assert result.result.endswith("Known functions: get_weather")
    assert shop.charged == []
    assert run(shop.functions, "get_weather", {"city": "x"}, declared=declared).outcome == "ok"


@pytest.mark.parametrize("tools", [None, "charge", 5])
def test_an_interaction_that_does_not_say_its_tools_declares_nothing(tools: Any) -> None:
    assert declared_names({"tools": tools}) is None
    assert declared_names({"tools": [None, {"type": "google_search", "name": "x"}]}) == frozenset()


def test_a_thousand_names_are_still_a_short_message() -> None:
    functions = Functions()
    for n in range(1000):
        functions.function(name=f"function_{n}")(lambda: None)

    assert len(run(functions, "x", {}).result) < 1000


# Arguments

GOOD = {"order_id": "o1", "cents": 100}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, ["order_id: required argument is missing", "cents: required"]),
        ({"order_id": "o1"}, ["cents: required argument is missing"]),
        (GOOD | {"note": 1}, ["note: unexpected argument"]),
        (GOOD | {"cents": "100"}, ["cents: Input should be a valid integer"]),
        (GOOD | {"cents": "1e3"}, ["cents: Input should be a valid integer"]),
        (GOOD | {"cents": 1.5}, ["cents: Input should be a valid integer"]),
        (GOOD | {"cents": True}, ["cents: Input should be a valid integer"]),
        (GOOD | {"cents": 1e3}, ["cents: Input should be a valid integer"]),
        (GOOD | {"cents": math.nan}, ["cents: nan is not a JSON number"]),
        (GOOD | {"cents": [[-math.inf]]}, ["cents: -inf is not a JSON number"]),
        (GOOD | {"cents": -1}, ["cents: Input should be greater than or equal to 0"]),
        (GOOD | {"cents": 10**5000}, ["not valid JSON"]),
        (GOOD | {"order_id": None}, ["order_id: Input should be a valid string"]),
        (GOOD | {"order_id": 5}, ["order_id: Input should be a valid string"]),
        (GOOD | {"order_id": "\ud800"}, ["not valid JSON"]),
        (GOOD | {"order_id": {"a": [{"b": 1}]}}, ["order_id: Input should be a valid string"]),
        (GOOD | {"self": 1}, ["self: unexpected argument"]),
        (GOOD | {"__class__": "x"}, ["__class__: unexpected argument"]),
        (GOOD | {"p0": "x"}, ["p0: unexpected argument"]),
        (GOOD | {"x" * 100_000: 1}, ["unexpected argument"]),
        (GOOD | {f"x{n}": 1 for n in range(1000)}, ["x0: unexpected argument", "…"]),
        (GOOD | {"order_id": "x" * 1024 * 1024}, ["larger than 1048576 bytes"]),
        (None, ["must be a JSON object, not null"]),
        (json.dumps(GOOD), ["must be a JSON object, not a string"]),
        ([GOOD], ["must be a JSON object, not a list"]),
        (True, ["must be a JSON object, not a boolean"]),
    ],
    ids=range(26),
)
def test_arguments_that_do_not_fit_never_reach_the_function(
    shop: Shop, arguments: Any, words: list[str]
) -> None:
    result = run(shop.functions, "charge", arguments)

    assert (result.outcome, result.is_error) == (Outcome.BAD_ARGUMENTS, True)
    assert all(each in result.result for each in words), result.result
    assert len(result.result) <= 1000
    assert shop.charged == []
    assert_sendable(result)


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("depth", "outcome"), [(99, "ok"), (100, "bad_arguments"), (100_000, "bad_arguments")]
)
def test_arguments_are_at_most_100_levels_deep(depth: int, outcome: str) -> None:
    functions = Functions()

    @functions.function()
    def take(anything: Any) -> None:
        pass

    assert run(functions, "take", {"anything": nested(depth)}).outcome == outcome


def test_a_type_error_inside_the_function_is_a_failure_of_the_function() -> None:
    functions = Functions()

    @functions.function()
    def charge(cents: int) -> None:
        raise TypeError("charge() got an unexpected keyword argument 'note'")

    result = run(functions, "charge", {"cents": 1})
    assert result.outcome == Outcome.FAILED
    assert result.result == "TypeError: charge() got an unexpected keyword argument 'note'"


def test_arguments_arrive_as_the_types_that_the_function_declares() -> None:
    functions, seen = Functions(), list[Any]()

    @functions.function()
    def take(order: Order, when: dt.datetime, tags: set[str], price: Decimal, ratio: float) -> None:
        seen.extend([order, when, tags, price, ratio])

    arguments = {
        "order": {"items": [{"title": "t", "colour": "blue"}], "count": 2},
        "when": "2026-01-02T03:04:05Z",
        "tags": ["a", "b"],
        "price": "1.10",
        "ratio": 1,
    }
    assert run(functions, "take", arguments).outcome == Outcome.OK
    assert seen == [
        Order([Item(title="t", colour=Colour.BLUE)], 2),
        dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
        {"a", "b"},
        Decimal("1.10"),
        1.0,
    ]


def test_nested_values_are_checked_as_strictly() -> None:
    functions = Functions()
    functions.function()(buy)
    order = {"items": [{"title": 5}], "count": True, "more": 1}
    result = run(functions, "buy", {"order": order, "when": "2026-01-01", "colours": ["green"]})

    assert result.outcome == Outcome.BAD_ARGUMENTS
    for word in ("order.items.0.title: ", "order.count: ", "order.more: ", "colours.0: "):
        assert word in result.result


def test_leniency_is_what_a_function_declares() -> None:
    functions, seen = Functions(), list[int]()

    @functions.function()
    def take(cents: Annotated[int, BeforeValidator(int)]) -> None:
        seen.append(cents)

    assert run(functions, "take", {"cents": "100"}).outcome == Outcome.OK
    assert seen == [100]


def test_a_validator_that_breaks_is_an_argument_error() -> None:
    functions = Functions()

    def broken(value: Any) -> Any:
        raise KeyError("oops")

    @functions.function()
    def take(x: Annotated[int, BeforeValidator(broken)]) -> None:
        raise AssertionError

    assert run(functions, "take", {"x": 1}).outcome == Outcome.BAD_ARGUMENTS


@given(st.fixed_dictionaries({}, optional={"order_id": JSON, "cents": JSON, "note": JSON}) | JSON)
def test_the_function_runs_exactly_where_the_types_are_right(arguments: Any) -> None:
    functions, seen = Functions(), list[Any]()

    @functions.function()
    def charge(order_id: str, cents: int) -> str:
        seen.append((order_id, cents))
        return "ok"

    fits = (
        isinstance(arguments, dict)
        and arguments.keys() == {"order_id", "cents"}
        and type(arguments["order_id"]) is str
        and type(arguments["cents"]) is int
    )
    result = run(functions, "charge", arguments)
    assert result.outcome == (Outcome.OK if fits else Outcome.BAD_ARGUMENTS)
    assert len(seen) == fits
    assert_sendable(result)


def test_what_was_not_sent_is_the_default_in_the_signature_itself() -> None:
    functions, default = Functions(), [1]

    @functions.function()
    def same(x: list[int] = default) -> bool:
        return x is default

    assert run(functions, "same", {}).result == {"result": True}


# Running


def test_the_context_is_given_where_it_is_asked_for() -> None:
    functions = Functions()

    @functions.function()
    def where(call: CallContext, x: int = 3) -> dict[str, Any]:
        return {"key": call.idempotency_key, "job": call.user_metadata["job"], "x": x}

    assert run(functions, "where", {}).result == {"key": "v1_i/c1", "job": "7", "x": 3}
    assert run(functions, "where", {"call": {}}).outcome == Outcome.BAD_ARGUMENTS


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


ERRORS: list[tuple[BaseException, str]] = [
    (ValueError("no such order"), "ValueError: no such order"),
    (KeyError("x"), "KeyError: 'x'"),
    (RuntimeError(), "RuntimeError"),
    (SystemExit(3), "SystemExit: 3"),
    (KeyboardInterrupt(), "KeyboardInterrupt"),
    (StopIteration(5), "StopIteration: 5"),
    (TimeoutError("theirs"), "TimeoutError: theirs"),
    (asyncio.CancelledError(), "CancelledError"),
    (ValueError("\ud800"), "ValueError: \\ud800"),
    (ValueError("x" * 10_000_000), "ValueError: " + "x" * 199 + "…"),
    (Unprintable(), "Unprintable"),
]


@pytest.mark.parametrize(("error", "text"), ERRORS, ids=range(len(ERRORS)))
def test_whatever_a_function_raises_is_what_the_model_reads(
    error: BaseException, text: str
) -> None:
    functions = Functions()

    @functions.function()
    def fail() -> None:
        raise error

    result = run(functions, "fail", {})
    assert (result.outcome, result.is_error, result.result) == (Outcome.FAILED, True, text)
    assert_sendable(result)


def test_an_async_function_runs_like_any_other() -> None:
    functions = Functions()

    @functions.function()
    async def wait(x: int) -> int:
        await asyncio.sleep(0)
        return x

    @functions.function()
    async def fail() -> None:
        raise TimeoutError("theirs")

    assert run(functions, "wait", {"x": 5}).result == {"result": 5}
    assert run(functions, "fail", {}).outcome == Outcome.FAILED


def test_a_late_function_is_abandoned_and_counted() -> None:
    functions, end = Functions(), threading.Event()

    @functions.function(timeout=0.05)
    def hang() -> None:
        end.wait()

    try:
        result = run(functions, "hang", {})
        assert (result.outcome, result.is_error) == (Outcome.TIMEOUT, True)
        assert result.result == "hang did not finish within 0.05 seconds"
        assert functions.abandoned == 1
        assert run(functions, "hang", {}).outcome == Outcome.TIMEOUT
        assert functions.abandoned == 2
    finally:
        end.set()


def test_a_late_coroutine_is_cancelled_and_leaves_nothing_behind() -> None:
    functions, cancelled = Functions(), threading.Event()

    @functions.function(timeout=SOON)
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    assert run(functions, "hang", {}).outcome == Outcome.TIMEOUT
    assert cancelled.is_set()
    assert functions.abandoned == 0


def test_async_functions_that_run_at_once_share_what_belongs_to_a_loop() -> None:
    functions, all_here = Functions(), asyncio.Barrier(3)

    @functions.function(timeout=60)
    async def meet() -> str:
        await all_here.wait()
        return "met"

    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda _: run(functions, "meet", {}), range(3)))

    assert [each.result for each in results] == ["met"] * 3


def test_a_connection_that_one_async_call_opened_serves_the_next() -> None:
    functions, readers = Functions(), list[asyncio.StreamReader]()
    ours, theirs = socket.socketpair()
    theirs.sendall(b"one\ntwo\n")

    @functions.function(timeout=60)
    async def ask() -> str:
        if not readers:
            reader, writer = await asyncio.open_connection(sock=ours)
            kept.append(writer)
            readers.append(reader)
        return (await readers[0].readline()).decode().strip()

    @functions.function(timeout=60)
    async def end() -> None:
        kept[0].close()
        await kept[0].wait_closed()

    kept: list[asyncio.StreamWriter] = []
    with theirs:
        answers = [run(functions, "ask", {}).result for _ in range(2)]
        assert run(functions, "end", {}).outcome == Outcome.OK
    assert answers == ["one", "two"]


def test_a_coroutine_knows_what_its_caller_knows() -> None:
    functions, current = Functions(), contextvars.ContextVar[str]("current")

    @functions.function()
    async def look(context: CallContext) -> str:
        await asyncio.sleep(0)
        return f"{current.get()} {context.idempotency_key}"

    for name in ("one", "two"):
        current.set(name)
        assert run(functions, "look", {}).result == f"{name} v1_i/c1"


@dataclasses.dataclass
class Turning:
    """Async functions, one of which blocks the loop until *end*."""

    end: threading.Event = dataclasses.field(default_factory=threading.Event)
    begun: threading.Event = dataclasses.field(default_factory=threading.Event)
    functions: Functions = dataclasses.field(default_factory=Functions)
    threads: list[threading.Thread] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.functions.function(timeout=SOON)(self.block)
        self.functions.function(timeout=30, name="block_in_time")(self.block)
        self.functions.function(timeout=30)(self.where)

    async def block(self) -> None:
        self.threads.append(threading.current_thread())
        self.begun.set()
        self.end.wait()

    async def where(self) -> int:
        await asyncio.sleep(0)
        return threading.get_ident()


@pytest.fixture
def turning() -> Iterator[Turning]:
    made = Turning()
    yield made
    made.end.set()


def test_a_coroutine_that_blocks_its_loop_is_abandoned_and_no_later_call_with_it(
    turning: Turning,
) -> None:
    with capture_logs() as lines:
        assert run(turning.functions, "block", {}).outcome == Outcome.TIMEOUT
    assert turning.functions.abandoned == 1
    assert [each["event"] for each in lines] == ["event_loop_blocked"]
    assert "threading.py:" in lines[0]["blocked_at"]

    result = run(turning.functions, "where", {})

    assert result.outcome == Outcome.OK
    assert result.result != {"result": turning.threads[0].ident}


def test_a_loop_that_was_left_ends_once_it_has_nothing_to_do(turning: Turning) -> None:
    assert run(turning.functions, "block", {}).outcome == Outcome.TIMEOUT
    assert turning.threads[0].is_alive()

    turning.end.set()

    turning.threads[0].join(60)
    assert not turning.threads[0].is_alive()


def test_what_ran_beside_a_blocking_coroutine_may_still_end_in_time(turning: Turning) -> None:
    functions, go = turning.functions, asyncio.Event()
    waits = threading.Event()

    @functions.function(timeout=30)
    async def wait() -> str:
        waits.set()
        await go.wait()
        for _ in range(10):  # turns of the loop
            await asyncio.sleep(0)
        return "ended"

    @functions.function(timeout=SOON)
    async def block_and_go() -> None:
        turning.end.wait()
        go.set()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run, functions, "wait", {})
        assert waits.wait(60)
        assert run(functions, "block_and_go", {}).outcome == Outcome.TIMEOUT
        turning.end.set()
        assert waiting.result(60).result == "ended"


def test_a_call_that_a_blocked_loop_kept_waiting_never_begins_after_its_deadline(
    turning: Turning,
) -> None:
    begun, kept = threading.Event(), list[Coroutine[Any, Any, None]]()

    async def charge() -> None:
        begun.set()

    @turning.functions.function(timeout=SOON, name="charge")
    def late() -> object:
        kept.append(charge())
        return kept[0]

    with ThreadPoolExecutor(1) as pool:
        blocking = pool.submit(run, turning.functions, "block_in_time", {})
        assert turning.begun.wait(60)
        assert run(turning.functions, "charge", {}).outcome == Outcome.TIMEOUT
        turning.end.set()
        assert blocking.result(60).outcome == Outcome.OK

    turning.threads[0].join(60)
    assert inspect.getcoroutinestate(kept[0]) == inspect.CORO_CLOSED
    assert not begun.is_set()


def test_a_coroutine_that_will_not_be_cancelled_costs_the_others_nothing(turning: Turning) -> None:
    functions, end = turning.functions, asyncio.Event()

    @functions.function(timeout=SOON)
    async def insist() -> None:
        while not end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await end.wait()

    @functions.function()
    async def stop() -> None:
        end.set()

    before = run(functions, "where", {}).result
    assert run(functions, "insist", {}).outcome == Outcome.TIMEOUT
    assert functions.abandoned == 1
    assert run(functions, "where", {}).result == before
    assert run(functions, "stop", {}).outcome == Outcome.OK


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_coroutine_that_wants_to_end_the_process_ends_itself_only(
    turning: Turning, error: type[BaseException]
) -> None:
    @turning.functions.function(timeout=60)
    async def leave() -> None:
        raise error

    before = run(turning.functions, "where", {})
    assert run(turning.functions, "leave", {}).outcome == Outcome.FAILED
    assert run(turning.functions, "where", {}).result == before.result


def test_functions_run_in_daemon_threads() -> None:
    functions = Functions()
    functions.function(name="f")(lambda: threading.current_thread().daemon)

    assert run(functions, "f", {}).result == {"result": True}


# Results


def cyclic() -> object:
    loop: list[Any] = []
    loop.append(loop)
    loop.append(loop)
    return loop


class Money(BaseModel):
    amount: Decimal
    paid: dt.date | None = None


class Level(enum.IntEnum):
    LOW = 1


MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
TEXT = {"type": "text", "text": "hi"}
IMAGE = {"type": "image", "data": "aGk=", "mime_type": "image/png"}
KEPT: list[tuple[Callable[[], object], object]] = [
    (lambda: "text", "text"),
    (lambda: "", ""),
    (dict, {}),
    (lambda: {"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
    (lambda: [TEXT, IMAGE], [TEXT, IMAGE]),
    (lambda: 5, {"result": 5}),
    (lambda: 1.5, {"result": 1.5}),
    (lambda: None, {"result": None}),
    (lambda: True, {"result": True}),
    (list, {"result": []}),
    (lambda: [1, 2], {"result": [1, 2]}),
    (lambda: (1, "a"), {"result": [1, "a"]}),
    (lambda: [{"a": 1}], {"result": [{"a": 1}]}),
    (lambda: [TEXT, 5], {"result": [TEXT, 5]}),
    (lambda: [{"type": "text"}], {"result": [{"type": "text"}]}),
    (lambda: [{"type": "image", "uri": 5}], {"result": [{"type": "image", "uri": 5}]}),
    (lambda: {4, 30, 100}, {"result": [100, 30, 4]}),
    (lambda: frozenset({"b", "a"}), {"result": ["a", "b"]}),
    (lambda: {"d": MOMENT}, {"d": "2026-01-02T03:04:05+00:00"}),
    (MOMENT.date, "2026-01-02"),
    (lambda: Decimal("1.10"), "1.10"),
    (lambda: uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (lambda: Colour.RED, "red"),
    (lambda: Level.LOW, "1"),
    (lambda: Money(amount=Decimal("1.10")), {"amount": "1.10", "paid": None}),
    (lambda: Order([Item(title="t")]), {"items": [{"title": "t", "colour": "red"}], "count": 1}),
    (lambda: {1: "a", Colour.RED: "b"}, {"1": "a", "red": "b"}),
    (lambda: 2**63, "9223372036854775808"),
]


@pytest.mark.parametrize(("make", "expected"), KEPT, ids=range(len(KEPT)))
def test_a_result_is_converted_as_the_table_says(
    make: Callable[[], object], expected: object
) -> None:
    result = returned(make)

    assert (result.outcome, result.is_error, result.result) == (Outcome.OK, False, expected)


REFUSED: list[Callable[[], object]] = [
    lambda: math.nan,
    lambda: {"d": math.inf},
    lambda: Decimal,
    lambda: b"\xff",
    lambda: {"d": bytearray(b"x")},
    object,
    lambda: (n for n in range(3)),
    itertools.count,
    lambda: iter([1]),
    lambda: ValueError("returned, not raised"),
    lambda: "\ud800",
    lambda: {"\ud800": 1},
    lambda: {1: "a", "1": "b"},
    lambda: {(1, 2): "a"},
    lambda: {None: 1},
    cyclic,
    lambda: nested(1000),
    lambda: 10**10_000,
    lambda: print,
    lambda: Item,
]


@pytest.mark.parametrize("make", REFUSED, ids=range(len(REFUSED)))
def test_what_has_no_json_form_is_an_error_that_the_model_can_read(
    make: Callable[[], object],
) -> None:
    result = returned(make)

    assert (result.outcome, result.is_error) == (Outcome.UNSERIALISABLE, True)
    assert result.result.startswith("The function ran, but its result is not serialisable: ")


@pytest.mark.parametrize(("depth", "outcome"), [(100, "ok"), (101, "unserialisable")])
def test_a_result_is_at_most_100_levels_deep(depth: int, outcome: str) -> None:
    assert returned(lambda: nested(depth)).outcome == outcome


def test_a_result_that_holds_itself_is_told_from_a_deep_one() -> None:
    assert returned(cyclic).result.endswith("it contains itself")


def test_an_infinite_generator_is_never_begun() -> None:
    begun = threading.Event()

    def endless_rows() -> Iterator[int]:
        begun.set()
        yield from itertools.count()

    assert returned(endless_rows).outcome == Outcome.UNSERIALISABLE
    assert not begun.is_set()


def shared() -> object:
    """Thirty small lists that would be a thousand million items written out."""
    value: list[Any] = [0]
    for _ in range(30):
        value = [value, value]
    return value


LARGE: list[Callable[[], object]] = [
    lambda: "x" * 5_000_000,
    lambda: "é\u0000" * 100_000,
    lambda: ["x"] * 1_000_000,
    lambda: {str(n): n for n in range(100_000)},
    lambda: {"k" * 5_000_000: 1},
    lambda: [TEXT] * 100_000,
    lambda: set(range(100_000)),
    shared,
]


@pytest.mark.parametrize("make", LARGE, ids=range(len(LARGE)))
@pytest.mark.parametrize("limit", [1024, 256 * 1024])
def test_a_huge_result_is_its_beginning_and_says_so(make: Callable[[], object], limit: int) -> None:
    result = returned(make, max_result=limit)

    assert (result.outcome, result.is_error) == (Outcome.TOO_LARGE, False)
    assert result.result.endswith(f"[cut by gemhooks: the result was larger than {limit} bytes]")
    assert limit / 2 < len(json.dumps(result.result, ensure_ascii=False).encode()) <= limit


@pytest.mark.parametrize(("length", "outcome"), [(1022, "ok"), (1023, "too_large")])
def test_the_limit_is_exact(length: int, outcome: str) -> None:
    assert returned(lambda: "x" * length, max_result=1024).outcome == outcome


HUGE = """
from gemhooks.functions import *
functions = Functions()
functions.function(name="text")(lambda: "x" * 50_000_000)
functions.function(name="rows")(lambda: [[n, "row"] for n in range(1_000_000)])
for name in ("text", "rows"):
    result = functions.run(Call("c", name, {}), context=CallContext("i", "c"))
    print(result.outcome, len(result.result) <= 256 * 1024)
"""


def test_huge_results_fit_into_512_megabytes() -> None:
    limit = 512 * 1024 * 1024
    ended = subprocess.run(
        [sys.executable, "-c", HUGE],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert ended.stdout == "too_large True\n" * 2


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.decimals()
    | st.datetimes()
    | st.uuids()
    | st.sampled_from(Colour),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.dictionaries(st.text() | st.integers() | st.none(), inner)
        | st.fixed_dictionaries({"type": st.sampled_from(["text", "image"]), "text": inner})
    ),
    max_leaves=30,
)


@given(VALUES)
def test_any_value_becomes_a_result_that_can_be_sent(value: object) -> None:
    result = returned(lambda: value, max_result=1024)

    assert len(json.dumps(result.result, ensure_ascii=False).encode()) <= 1024
    assert result.is_error == (result.outcome == Outcome.UNSERIALISABLE)


# The continuation

OK = Result("c1", "get_weather", {"temp": 21}, is_error=False, outcome=Outcome.OK)
BAD = Result("c2", "get_time", "boom", is_error=True, outcome=Outcome.FAILED)
TOOLS = [{"type": "function", "name": "get_weather", "parameters": {"type": "object"}}]
INTERACTION: dict[str, Any] = {
    "id": "v1_i",
    "model": "gemini-3.8-flash",
    "status": "requires_action",
    "steps": [call_step("c1", "get_weather"), call_step("c2", "get_time")],
}


def test_a_continuation_answers_in_the_order_of_the_calls_and_says_everything_again() -> None:
    interaction = INTERACTION | {
        "tools": TOOLS,
        "system_instruction": "be kind",
        "generation_config": {"temperature": 0.5},
        "response_mime_type": "application/json",
        "labels": None,
        "webhook_config": {"uris": ["https://a"], "user_metadata": {"job": "7"}},
    }
    body = continuation(
        interaction, [BAD, OK], tools=[], webhook_config={}, user_metadata={"key": "k"}
    )

    assert body == {
        "model": "gemini-3.8-flash",
        "previous_interaction_id": "v1_i",
        "input": [
            {
                "type": "function_result",
                "call_id": "c1",
                "name": "get_weather",
                "result": {"temp": 21},
            },
            {
                "type": "function_result",
                "call_id": "c2",
                "name": "get_time",
                "result": "boom",
                "is_error": True,
            },
        ],
        "background": True,
        "tools": TOOLS,
        "system_instruction": "be kind",
        "generation_config": {"temperature": 0.5},
        "response_mime_type": "application/json",
        "webhook_config": {"uris": ["https://a"], "user_metadata": {"job": "7", "key": "k"}},
    }
    google.CreateModelInteraction.model_validate(body)


def test_what_the_interaction_does_not_say_the_caller_says() -> None:
    body = continuation(
        INTERACTION,
        [OK, BAD],
        tools=TOOLS,
        webhook_config={"uris": ["https://b"]},
        system_instruction="be brief",
        generation_config={"seed": 1},
    )

    assert body["tools"] == TOOLS
    assert body["webhook_config"] == {"uris": ["https://b"]}
    assert body["system_instruction"] == "be brief"
    assert body["generation_config"] == {"seed": 1}
    assert "webhook_config" not in continuation(INTERACTION, [OK, BAD])


def chosen(choice: object) -> dict[str, Any]:
    """The generation_config of what continues an interaction that was started with *choice*."""
    config = {"temperature": 0.5, "tool_choice": choice}
    body = continuation(INTERACTION | {"generation_config": config}, [OK, BAD])
    google.CreateModelInteraction.model_validate(body)
    sent: dict[str, Any] = body["generation_config"]
    return sent


@pytest.mark.parametrize("choice", ["any", "ANY", {"allowed_tools": {"mode": "any"}}], ids=str)
def test_a_model_that_had_to_call_a_function_need_not_do_so_for_ever(choice: object) -> None:
    assert chosen(choice) == {"temperature": 0.5}


@pytest.mark.parametrize("mode", ["any", "ANY"])
def test_a_model_that_had_to_call_one_of_some_functions_still_may_call_no_others(mode: str) -> None:
    choice = {"allowed_tools": {"mode": mode, "tools": ["get_weather"]}}

    assert chosen(choice)["tool_choice"] == {
        "allowed_tools": {"mode": "validated", "tools": ["get_weather"]}
    }


@pytest.mark.parametrize(
    "choice",
    [
        "auto",
        "none",
        "validated",
        "VALIDATED",
        "tomorrow",
        {"allowed_tools": {"mode": "validated", "tools": ["get_weather"]}},
        {"allowed_tools": {"tools": ["get_weather"]}},
        {},
    ],
    ids=str,
)
def test_every_other_choice_of_tools_is_sent_again(choice: object) -> None:
    assert chosen(choice) == {"temperature": 0.5, "tool_choice": choice}


def test_nor_is_it_forced_by_what_the_caller_says_and_nothing_empty_is_sent() -> None:
    config = {"tool_choice": "any"}

    assert "generation_config" not in continuation(INTERACTION, [OK, BAD], generation_config=config)
    assert config == {"tool_choice": "any"}


@pytest.mark.parametrize(
    "config",
    ["x", {"tool_choice": 5}, {"tool_choice": {"allowed_tools": "any"}}, {"tool_choice": None}],
    ids=str,
)
def test_an_odd_generation_config_is_left_to_gemini_to_judge(config: object) -> None:
    body = continuation(INTERACTION | {"generation_config": config}, [OK, BAD])

    assert body["generation_config"] == config


def test_an_agent_is_continued_as_an_agent() -> None:
    interaction = INTERACTION | {
        "agent": "deep-research",
        "agent_config": {"type": "dynamic"},
        "environment": "env_1",
        "generation_config": {"seed": 1},
    }
    body = continuation(interaction, [OK, BAD])

    assert body["agent"] == "deep-research"
    assert body["environment"] == "env_1"
    assert body["agent_config"] == {"type": "dynamic"}
    assert "model" not in body
    assert "generation_config" not in body
    google.CreateAgentInteraction.model_validate(body)


@pytest.mark.parametrize("results", [[], [OK], [OK, OK], [OK, BAD, BAD]], ids=range(4))
def test_a_continuation_answers_each_call_once(results: list[Result]) -> None:
    with pytest.raises(ValueError, match="not those of the waiting calls"):
        continuation(INTERACTION, results)


@pytest.mark.parametrize("missing", ["id", "model"])
def test_what_cannot_be_continued_is_an_error(missing: str) -> None:
    with pytest.raises(ValueError, match="can't be continued"):
        continuation(INTERACTION | {missing: None}, [OK, BAD])


@pytest.mark.parametrize("steps", [None, 5, True, {}, {"type": "function_call"}, "x"])
def test_steps_that_are_no_list_hold_no_calls(steps: object) -> None:
    assert waiting_calls(steps).calls == ()


@pytest.mark.parametrize("odd", ["x", 5, [], {"user_metadata": "x"}, {"user_metadata": [1]}])
def test_an_odd_webhook_config_does_not_keep_an_answer_back(odd: object) -> None:
    """The functions have run by then."""
    interaction = {"id": "v1_a", "model": "m", "webhook_config": odd}

    body = continuation(interaction, [], user_metadata={"a": 1})

    assert body["webhook_config"] == {"user_metadata": {"a": 1}}
