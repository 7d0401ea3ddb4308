"""Fixtures for pytest; it finds them by itself where gemhooks is installed."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # a plugin is imported in every run, those that have no use for it too
    from gemhooks.consumers import Consumers
    from gemhooks.messages import Message
    from gemhooks.simulator import Simulator
    from gemhooks.testing.handling import Ended


@pytest.fixture
def gemhooks_handle() -> "Callable[[Consumers, Message], Ended]":
    """:func:`gemhooks.testing.handle`: run consumers on a message, with no broker."""
    from gemhooks.testing.handling import handle  # noqa: PLC0415

    return handle


@pytest.fixture
def gemhooks_message() -> "Callable[..., Message]":
    """:func:`gemhooks.testing.message`: an event of any type, as it comes from the queue."""
    from gemhooks.testing.factories import message  # noqa: PLC0415

    return message


@pytest.fixture
def gemini_simulator(monkeypatch: pytest.MonkeyPatch) -> "Iterator[Simulator]":
    """A local Gemini that really calls back (needs gemhooks[simulator]).

    GEMHOOKS_GEMINI_BASE_URL, GEMINI_API_KEY and GEMINI_WEBHOOK_SECRET are set for it meanwhile.
    """
    from gemhooks.simulator import Simulator  # noqa: PLC0415

    with Simulator() as simulator:
        values: dict[str, Any] = {
            "GEMHOOKS_GEMINI_BASE_URL": simulator.url,
            "GEMINI_API_KEY": "simulated",
            "GEMINI_WEBHOOK_SECRET": simulator.secret,
        }
        for name, value in values.items():
            monkeypatch.setenv(name, value)
        yield simulator
