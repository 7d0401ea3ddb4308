"""What the system does to the world in a chaos run: lines of a file, each written at once."""

import os
from pathlib import Path

from gemhooks import CallContext, Consumers, Functions, current_message, events

functions = Functions()
consumers = Consumers()


@functions.function(timeout=10)
def charge(order: str, call: CallContext) -> str:
    """Take the money for an order.

    Args:
        order: Which order.
    """
    note("CHAOS_CHARGES", f"{call.interaction_id} {call.call_id}")
    return f"{order} is paid"


@consumers.on(events.InteractionFetched, queue="chaos")
def listen(event: events.InteractionFetched) -> None:
    note("CHAOS_HEARD", f"{event.data.id} {os.getpid()} {current_message().attempt}")


def note(variable: str, line: str) -> None:
    """One write to a file opened for appending: whole or not at all, whoever dies when."""
    path = Path(os.environ[variable])
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)
