"""A chain of calls on the simulator, through Google's own client."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gemhooks.errors import NotYet
from gemhooks.functions import marks
from gemhooks.gemini import Gemini
from gemhooks.ledger import Ledgers, open_ledger
from gemhooks.simulator import Call, CallFunctions, Say, Script, Simulator
from gemhooks.testing import MemoryPublisher
from tests.workers.test_functions import CONTINUED, Effects, assembled, event, registry
from workers.functions import FunctionCaller

CHAIN = Script(
    when="weather",
    turns=(
        CallFunctions(calls=(Call(name="look", arguments={"what": "sky"}),) * 2),
        CallFunctions(
            calls=(Call(name="charge", arguments={"order": "o1", "cents": 5}), Call(name="gone"))
        ),
        Say(text="{results}"),
    ),
)


@pytest.fixture
def gemini() -> Iterator[Gemini]:
    with (
        Simulator(delay=0.01, scripts=[CHAIN]) as simulator,
        closing(Gemini("key", base_url=simulator.url)) as gemini,
    ):
        yield gemini


@pytest.fixture
def ledgers(tmp_path: Path) -> Iterator[Ledgers]:
    opened = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    yield opened
    opened.close()


def answered(caller: FunctionCaller, name: str) -> str:
    """Wait until it waits, answer it, and return its successor."""
    deadline = time.monotonic() + 60
    while True:
        try:
            assert caller.run(event(name)) == CONTINUED
        except NotYet:
            assert time.monotonic() < deadline
            time.sleep(0.02)
            continue
        found = caller.continuer.continuations.of(name)
        assert found is not None
        return str(found.successor_id)


def ended(gemini: Gemini, name: str) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while (interaction := gemini.interactions.get(name).parsed)["status"] == "in_progress":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return interaction


def test_a_chain_of_calls_comes_to_its_end(gemini: Gemini, ledgers: Ledgers) -> None:
    effects = Effects()
    functions = registry(effects)
    caller = assembled(functions, gemini, MemoryPublisher(), ledgers)
    first = gemini.interactions.create(
        model="gemini-3.8-flash",
        input="How is the weather?",
        tools=functions.declarations(),
        system_instruction="Be brief.",
        background=True,
        webhook_config={"user_metadata": marks.marked({"job": "7"})},
    )

    second = answered(caller, first.id)
    third = answered(caller, second)

    end = ended(gemini, third)
    assert end["status"] == "completed"
    assert end["system_instruction"] == "Be brief."
    assert end["webhook_config"]["user_metadata"]["job"] == "7"
    assert {each["name"] for each in end["tools"]} == {"charge", "look", "broken"}
    assert effects.lines[:2] == ["look sky", "look sky"]
    assert effects.lines[2].startswith(second)
