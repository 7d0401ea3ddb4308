"""The short form; `make chaos SECONDS=600 SEED=7` is the long one."""

from pathlib import Path

import pytest

from tests.chaos.run import Plan, run
from tests.services.postgresql import PostgresServer
from tests.services.rabbitmq import RabbitNode

SEED = 7
SECONDS = 8.0
RATE = 10.0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_is_lost_and_no_effect_happens_twice(
    own_node: RabbitNode, own_server: PostgresServer, tmp_path: Path
) -> None:
    own_node.start()
    own_server.start()
    plan = Plan(SECONDS, SEED, RATE, broker_pauses=(2.0, 3.0))

    report = run(plan, own_node, own_server, tmp_path)

    assert report.complaints == [], report.line
    assert report.faults, "nothing was hurt"
    assert len(report.books.accepted) > RATE
