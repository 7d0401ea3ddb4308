"""A consumer in ten lines: print each answer as it comes in."""

from gemhooks import Consumers, events

consumers = Consumers()


@consumers.on(events.InteractionFetched, queue="answers")
def show(event: events.InteractionFetched) -> None:
    print(f"{event.data.id[:12]}... says: {event.data.text}")  # noqa: T201 - that is the example
