"""Waiting interactions on real parts: every function called once, every chain ends completed."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gemhooks.simulator import Call, CallFunctions, Faults, Say, Script, Simulator
from tests.integration.shop_system import System, running
from tests.services.waiting import eventually

INTERACTIONS = 200
FUNCTION_TURNS = [
    random.Random(3).choices((1, 2, 3), k=number % 3) for number in range(INTERACTIONS)
]  # of each interaction: how many calls each of its turns asks for; the last turn only speaks
PROGRAMS = {"receiver": ("receiver",), "one": ("workers",), "two": ("workers",)}


def order(number: int) -> str:
    return f"order-{number:03};"


def script(number: int) -> Script:
    """Asks for its calls turn by turn, then says what came of the last."""
    turns = [
        CallFunctions(
            calls=tuple(
                Call(name="charge", arguments={"order": order(number), "cents": cents})
                for cents in range(calls)
            )
        )
        for calls in FUNCTION_TURNS[number]
    ]
    return Script(when=order(number), turns=(*turns, Say(text="Paid.")))


@pytest.fixture
def system(amqp_url: str, postgres_url: str, tmp_path: Path) -> Iterator[System]:
    simulator = Simulator(
        scripts=[script(number) for number in range(INTERACTIONS)],
        faults=Faults(duplicate_rate=0.1, shuffle=0.3, seed=7),
        retry_base=0.2,
    )
    with simulator, running(simulator, (amqp_url, postgres_url), tmp_path, PROGRAMS) as system:
        yield system


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_interaction_completes_and_every_call_has_one_effect(system: System) -> None:
    wanted = [
        {"model": "gemini-3.8-flash", "input": f"Pay {order(number)}"}
        for number in range(INTERACTIONS)
    ]
    firsts = [job.id for job in system.each(wanted)]
    turns = INTERACTIONS + sum(map(len, FUNCTION_TURNS))
    eventually(
        lambda: sum(job.ended_at is not None for job in system.all_jobs()) == turns,
        seconds=600,
        why=f"{turns} turns ended, see {system.folder}",
    )
    system.wait_until_drained()

    chains = [system.follow(first) for first in firsts]
    assert [len(chain) - 1 for chain in chains] == [len(each) for each in FUNCTION_TURNS]
    assert {chain[-1].state for chain in chains} == {"completed"}
    assert any(attempt.kind == "duplicate" for attempt in system.simulator.attempts)
    assert len(system.simulator.interactions) == turns  # nothing was continued twice
    calls = sum(map(sum, FUNCTION_TURNS))
    once = Counter(line.split()[0] for line in system.effects)
    assert (len(once), sum(once.values())) == (calls, calls)
    results = system.folder / "results" / "interactions"
    for chain in chains:
        eventually((results / f"{chain[-1].id}.json").exists, why=f"{chain[-1].id} is stored")
