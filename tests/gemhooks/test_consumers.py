"""Who takes which event."""

import asyncio
import functools
import re
from typing import Any

import orjson
import pytest

from gemhooks import CallContext, Consumers, Functions, Retry, current_message, events
from gemhooks.functions import Call
from gemhooks.handlers import Skipped, ended
from gemhooks.handling import handling
from gemhooks.messages import Message
from gemhooks.testing import handle, message


def nothing(event: events.Event) -> None:
    """Take it."""


def something(event: events.Event) -> None:
    """Take it too."""


def test_the_same_event_twice_in_a_queue_is_an_error_at_once() -> None:
    consumers = Consumers()
    consumers.add(events.BatchFailed, nothing, queue="q")

    with pytest.raises(ValueError, match="a handler for BatchFailed in 'q' already"):
        consumers.add(events.BatchFailed, nothing, queue="q")


@pytest.mark.parametrize("given", [nothing, events, int, None, events.Batch])
def test_what_is_no_event_is_an_error_at_once(given: Any) -> None:
    consumers = Consumers()

    with pytest.raises(TypeError, match=r"wants an event of gemhooks\.events or a pattern"):
        consumers.on(given, queue="q")
    with pytest.raises(TypeError, match=r"wants an event of gemhooks\.events or a pattern"):
        consumers.add(given, nothing, queue="q")


def test_a_decorator_without_its_parentheses_is_an_error_at_once() -> None:
    consumers: Any = Consumers()

    with pytest.raises(TypeError, match=r"on\(events\.InteractionFetched, queue="):
        consumers.on(nothing)


def test_the_nearest_class_takes_the_event() -> None:
    consumers = Consumers()
    consumers.add(events.BatchEvent, nothing, queue="q")
    consumers.add(events.BatchFailed, something, queue="q")
    (subscription,) = consumers
    failed = events.parse(b'{"type":"batch.failed","data":{"id":"b"}}')
    expired = events.parse(b'{"type":"batch.expired","data":{"id":"b"}}')

    assert subscription.handler_of(failed) is something
    assert subscription.handler_of(expired) is nothing
    assert subscription.handler_of(events.parse(b'{"type":"x","data":{"id":"b"}}')) is None


def test_a_queue_is_bound_to_every_name_of_its_events() -> None:
    consumers = Consumers()
    consumers.on(events.BatchSucceeded, queue="q")(nothing)
    consumers.on(events.InteractionFetched, queue="q")(nothing)
    (queue,) = consumers.queues()

    assert queue.name == "gemhooks.q"
    assert queue.bindings == (
        ("gemhooks.events", "batch.succeeded"),
        ("gemhooks.events", "batch.completed"),
        ("gemhooks.results", "interaction.fetched"),
    )


def event(kind: str, **metadata: Any) -> events.Event:
    return events.parse(
        orjson.dumps({"type": kind, "data": {"id": "x", "user_metadata": metadata}})
    )


def test_a_pattern_takes_the_types_that_no_class_takes() -> None:
    consumers = Consumers()
    consumers.on("batch.*", queue="q")(nothing)
    consumers.on("interaction.fetched", queue="q", exchange="gemhooks.results")(nothing)
    consumers.on(events.BatchFailed, queue="q")(something)
    (subscription,) = consumers

    assert subscription.handler_of(event("batch.failed")) is something
    assert subscription.handler_of(event("batch.paused")) is nothing
    assert subscription.handler_of(event("video.generated")) is None
    assert ("gemhooks.events", "batch.*") in subscription.bindings
    assert ("gemhooks.results", "interaction.fetched") in subscription.bindings


def test_messages_of_ones_own_are_taken_from_the_exchange_that_they_were_published_to() -> None:
    """No class says of which exchange such a type is: the queue's bindings have chosen already."""
    consumers = Consumers()
    consumers.on("answer.*", queue="q", exchange="gemhooks.results")(nothing)
    consumers.on("batch.scored", queue="q", exchange="gemhooks.results")(something)
    (subscription,) = consumers

    assert subscription.handler_of(event("answer.rated")) is nothing
    assert subscription.handler_of(event("batch.scored")) is something
    assert subscription.handler_of(event("interaction.fetched")) is None


def test_a_known_type_is_not_taken_for_one_of_another_exchange() -> None:
    consumers = Consumers()
    consumers.on("#", queue="q", exchange="gemhooks.results")(nothing)
    (subscription,) = consumers

    assert subscription.handler_of(event("batch.fetched")) is nothing
    assert subscription.handler_of(event("batch.failed")) is None


def test_a_filter_skips_what_other_jobs_left() -> None:
    seen: list[events.Event] = []
    consumers = Consumers()
    consumers.on("batch.*", queue="q", where={"shop": "vienna", "row": 1})(seen.append)
    (subscription,) = consumers

    for metadata in ({}, {"shop": "graz", "row": 1}, {"shop": "vienna"}):
        found = event("batch.failed", **metadata)
        handler = subscription.handler_of(found)
        assert handler is not None
        assert isinstance(handler(found), Skipped)
    wanted = event("batch.failed", shop="vienna", row=1, more="x")
    handler = subscription.handler_of(wanted)
    assert handler is not None
    handler(wanted)

    assert seen == [wanted]


def test_async_handlers_share_one_loop_and_know_their_message() -> None:
    seen: list[tuple[int, str]] = []
    consumers = Consumers()

    @consumers.on(events.BatchFailed, queue="q")
    async def handle(_event: events.BatchFailed) -> None:
        await asyncio.sleep(0)
        seen.append((id(asyncio.get_running_loop()), current_message().id))

    (subscription,) = consumers
    handler = subscription.handler_of(event("batch.failed"))
    assert handler is not None
    for name in ("one", "two"):
        with handling(Message(name, "batch.failed", b""), None):
            ended(handler(event("batch.failed")))

    assert [name for _, name in seen] == ["one", "two"]
    assert len({loop for loop, _ in seen}) == 1


class Shop:
    """Handlers of which Python does not say that they are async."""

    def __init__(self) -> None:
        self.sold: list[str] = []

    async def sell(self, event: events.Event, _where: str = "") -> None:
        await asyncio.sleep(0)
        self.sold.append(event.data.id)

    async def __call__(self, event: events.Event) -> None:
        await self.sell(event)

    def wrapped(self, event: events.Event) -> object:
        return self.sell(event)


@pytest.mark.parametrize("kind", ["object", "partial", "wrapper", "lambda", "future"])
def test_whatever_a_handler_returns_to_be_awaited_is_awaited(kind: str) -> None:
    shop, consumers = Shop(), Consumers()
    handlers: dict[str, Any] = {
        "object": shop,
        "partial": functools.partial(shop.sell, _where="here"),
        "wrapper": shop.wrapped,
        "lambda": lambda event: shop.sell(event),  # noqa: PLW0108 - that is what is tried
        "future": lambda event: _Awaitable(shop.sell(event)),
    }
    consumers.add(events.BatchFailed, handlers[kind], queue="q")

    assert handle(consumers, message("batch.failed", id="b1")).is_done
    assert shop.sold == ["b1"]


class _Awaitable:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __await__(self) -> Any:
        return self._inner.__await__()


def test_a_generator_is_no_handler() -> None:
    consumers: Any = Consumers()

    def some(event: events.Event) -> Any:
        yield event

    async def others(event: events.Event) -> Any:
        yield event

    for generator in (some, others):
        with pytest.raises(TypeError, match=f"{generator.__name__}.* is a generator"):
            consumers.add(events.BatchFailed, generator, queue="q")
    consumers.add(events.BatchFailed, lambda event: some(event), queue="q")  # noqa: PLW0108
    assert not handle(consumers, message("batch.failed", id="b1")).is_done


def test_what_an_async_handler_raises_reaches_the_runner() -> None:
    consumers = Consumers()

    @consumers.on(events.BatchFailed, queue="q")
    async def handle(_event: events.BatchFailed) -> None:
        raise KeyError("x")

    (subscription,) = consumers
    handler = subscription.handler_of(event("batch.failed"))
    assert handler is not None
    with pytest.raises(KeyError):
        ended(handler(event("batch.failed")))


def test_an_async_handler_that_raises_systemexit_leaves_the_loop_to_the_others() -> None:
    consumers, seen = Consumers(), list[events.Event]()

    @consumers.on(events.BatchFailed, queue="q")
    async def leave(_event: events.BatchFailed) -> None:
        raise SystemExit

    @consumers.on(events.BatchFailed, queue="r")
    async def stay(event: events.BatchFailed) -> None:
        seen.append(event)

    left, stayed = (each.handler_of(event("batch.failed")) for each in consumers)
    assert left is not None
    assert stayed is not None
    with pytest.raises(SystemExit):
        ended(left(event("batch.failed")))
    ended(stayed(event("batch.failed")))
    assert len(seen) == 1


def test_async_handlers_and_functions_share_one_loop() -> None:
    consumers, functions = Consumers(), Functions()
    loops = list[asyncio.AbstractEventLoop]()

    @consumers.on(events.BatchFailed, queue="q")
    async def handle(_event: events.BatchFailed) -> None:
        loops.append(asyncio.get_running_loop())

    @functions.function()
    async def run() -> None:
        loops.append(asyncio.get_running_loop())

    (subscription,) = consumers
    handler = subscription.handler_of(event("batch.failed"))
    assert handler is not None
    ended(handler(event("batch.failed")))
    functions.run(Call("c", "run", {}), context=CallContext("v1_i", "c"))

    assert loops[0] is loops[1]


class Handling:
    """Handlers may be methods, of objects that hold what they need."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def take(self, event: events.BatchFailed) -> None:
        self.seen.append(event.data.id)

    def __call__(self, event: events.BatchFailed) -> None:
        self.take(event)


def test_methods_and_callable_objects_are_handlers() -> None:
    handling = Handling()
    consumers = Consumers()
    consumers.add(events.BatchFailed, handling.take, queue="one")
    consumers.add(events.BatchFailed, handling, queue="two")

    for subscription in consumers:
        handler = subscription.handler_of(event("batch.failed"))
        assert handler is not None
        handler(event("batch.failed"))
    assert handling.seen == ["x", "x"]


def test_a_handler_that_cannot_take_its_event_is_an_error_that_names_the_line() -> None:
    def wrong(event: events.BatchFailed) -> None:
        """Take something else."""

    def none() -> None:
        """Take nothing."""

    consumers = Consumers()
    line = wrong.__code__.co_firstlineno
    with pytest.raises(
        TypeError, match=rf"test_consumers\.py:{line}: .*wrong\(\) takes BatchFailed"
    ):
        consumers.add(events.VideoGenerated, wrong, queue="q")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"none\(\) must take one argument"):
        consumers.add(events.VideoGenerated, none, queue="q")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_queue_has_one_set_of_rules() -> None:
    consumers = Consumers()
    consumers.add(events.BatchFailed, nothing, queue="q", once=False, retry="5s 1m")
    with pytest.raises(ValueError, match="another once or retry"):
        consumers.add(events.BatchExpired, nothing, queue="q")
    with pytest.raises(ValueError, match="no list of waits"):
        consumers.add(events.BatchExpired, nothing, queue="r", retry="soon")
    for wrong in (5, [5, 60]):
        with pytest.raises(TypeError, match=re.escape(f"'5s 1m 10m', not as {wrong}")):
            consumers.add(events.BatchExpired, nothing, queue="r", retry=wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (subscription,) = consumers

    assert subscription.rules.retry == (5.0, 60.0)
    assert not subscription.rules.once


@pytest.mark.parametrize("after", [None, 300.0])
def test_long_work_is_looked_at_as_often_as_its_queues_schedule_says(after: float | None) -> None:
    consumers = Consumers()

    @consumers.on(events.BatchFailed, queue="q", retry="5m " * 36)
    def look(_event: events.BatchFailed) -> None:
        raise Retry("still running", after=after)

    ends = [handle(consumers, message("batch.failed", attempt=each)) for each in (1, 36, 37)]

    assert [each.retry_after for each in ends] == [300.0, 300.0, None]
    assert ends[-1].dead_letter is not None
    assert ends[-1].dead_letter.reason == "gave_up"


def test_one_may_serve_some_of_the_queues_only() -> None:
    consumers = Consumers()
    consumers.add(events.BatchFailed, nothing, queue="one")
    consumers.add(events.BatchFailed, nothing, queue="two")

    assert [each.queue for each in consumers.only(["two"])] == ["gemhooks.two"]
    with pytest.raises(
        ValueError, match=r"no handler .* gemhooks\.three; there are: gemhooks\.one"
    ):
        consumers.only(["three"])
