"""Who takes which event."""

import pytest

from gemhooks import Consumers, events


def nothing(event: events.Event) -> None:
    """Take it."""


def something(event: events.Event) -> None:
    """Take it too."""


def test_the_same_event_twice_in_a_queue_is_an_error_at_once() -> None:
    consumers = Consumers()
    consumers.add(events.BatchFailed, nothing, queue="q")

    with pytest.raises(ValueError, match="already has a handler for BatchFailed"):
        consumers.add(events.BatchFailed, nothing, queue="q")


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
