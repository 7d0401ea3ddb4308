"""Two functions that a model may call: set GEMHOOKS_FUNCTIONS=tools:functions."""

import os
from pathlib import Path

from gemhooks import CallContext, Functions

functions = Functions()


@functions.function(effect="idempotent")
def get_weather(city: str) -> dict[str, str | int]:
    """The weather in a city.

    Args:
        city: its name, for instance Vienna
    """
    return {"city": city, "sky": "clear", "celsius": 7 + len(city)}


@functions.function(timeout=10)
def book_table(restaurant: str, people: int, context: CallContext) -> str:
    """Book a table for tonight.

    Args:
        restaurant: its name
        people: how many come
    """
    line = f"{context.idempotency_key} {restaurant} for {people}\n"
    if effects := os.environ.get("TOOLS_EFFECTS"):  # what it did, one line a call
        with Path(effects).open("a") as file:
            file.write(line)
    return f"A table for {people} at {restaurant} is booked."
