"""The rules of a loop's pulse."""

import asyncio

from gemhooks.pulse import Pulse
from tests.services.waiting import eventually


def test_a_silence_is_first_no_readiness_and_at_length_no_life() -> None:
    now = 1000.0
    pulse = Pulse(lambda: now)

    def felt(after: float) -> tuple[bool, bool]:
        nonlocal now
        now += after
        return pulse.is_quick(), pulse.is_felt()

    assert felt(4) == (True, True)
    assert felt(2) == (False, True)
    assert felt(50) == (False, True)
    assert felt(5) == (False, False)
    pulse.beat()
    assert felt(0) == (True, True)


def test_it_beats_while_the_loop_turns() -> None:
    now = 1000.0
    pulse = Pulse(lambda: now)

    async def turn() -> None:
        nonlocal now
        keeping = asyncio.create_task(pulse.keep())
        now += 100
        await asyncio.to_thread(eventually, pulse.is_quick, why="it beats")
        keeping.cancel()

    asyncio.run(turn())
