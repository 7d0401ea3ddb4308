"""30% of the events are lost, some states have none: every job still ends, and exactly once."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pika
import pytest
import urllib3

from gemhooks import topology
from gemhooks.gemini import Gemini
from gemhooks.ledger import Job
from gemhooks.simulator import (
    BatchPlan,
    Call,
    CallFunctions,
    Fail,
    Faults,
    Say,
    Script,
    Show,
    Simulator,
    VideoPlan,
)
from tests.integration.shop_system import System, running
from tests.services.waiting import eventually

LOST = 0.3
INTERACTIONS = 36
PROGRAMS = {"receiver": ("receiver",), "one": ("workers",), "reconciler": ("workers", "reconcile")}
HURRIED = {
    "GEMHOOKS_EXPECT_INTERACTION": "1s",
    "GEMHOOKS_EXPECT_BATCH": "1s",
    "GEMHOOKS_EXPECT_VIDEO": "1s",
    "GEMHOOKS_RECONCILE_EVERY": "0.5s",
    "GEMHOOKS_RECONCILE_GRACE": "1s",
    "GEMHOOKS_RECONCILE_RATE": "200",
    "GEMHOOKS_LIST_BATCHES_EVERY": "2s",
    "GEMHOOKS_STUCK_AFTER": "1s",
}
PAY = CallFunctions(
    calls=tuple(Call(name="charge", arguments={"order": "o", "cents": each}) for each in (1, 2))
)
SCRIPTS = {
    "completed": Script(when="completed;", turns=(Say(text="Yes."),)),
    "paid": Script(when="paid;", turns=(PAY, PAY, Say(text="Paid."))),
    "failed": Script(when="failed;", turns=(Fail(),)),
    # No event tells of these.
    "cancelled": Script(when="cancelled;", turns=(Show(status="cancelled"),)),
    "incomplete": Script(when="incomplete;", turns=(Show(status="incomplete"),)),
    "budget_exceeded": Script(when="budget_exceeded;", turns=(Show(status="budget_exceeded"),)),
}
BATCHES = ("succeeded", "failed", "expired", "cancelled")
VIDEOS = {"generated": VideoPlan(when="generated;"), "failed": VideoPlan(when="failed;")}
ROW = {"contents": [{"parts": [{"text": "Hello?"}]}]}
ENDED_AS = {"paid": "completed"}


@pytest.fixture
def system(amqp_url: str, postgres_url: str, tmp_path: Path) -> Iterator[System]:
    simulator = Simulator(
        scripts=list(SCRIPTS.values()),
        batches=[BatchPlan(when=f"{outcome};", outcome=outcome) for outcome in BATCHES],
        videos=[
            VIDEOS["generated"],
            VIDEOS["failed"].model_copy(update={"outcome": "failed"}),
        ],
        faults=Faults(lost_rate=LOST, seed=11),
    )
    urls = (amqp_url, postgres_url)
    with simulator, running(simulator, urls, tmp_path, PROGRAMS, **HURRIED) as system:
        yield system


class Fetched:
    """What the user's own consumers get to see."""

    def __init__(self, amqp_url: str) -> None:
        self._connection = pika.BlockingConnection(pika.URLParameters(amqp_url))
        self._channel = self._connection.channel()
        self._queue = str(self._channel.queue_declare("", exclusive=True).method.queue)
        self._channel.queue_bind(self._queue, topology.RESULTS, "interaction.fetched")
        self._seen: Counter[str] = Counter()

    def close(self) -> None:
        self._connection.close()

    def seen(self) -> Counter[str]:
        """How often each interaction was announced."""
        while True:
            method, properties, _ = self._channel.basic_get(self._queue, auto_ack=True)
            if method is None or properties is None:
                return self._seen
            self._seen[str(properties.message_id).partition("/")[0]] += 1


def start(system: System) -> dict[str, str]:
    """Start everything; how each job should end, by its id."""
    kinds = [kind for kind in SCRIPTS for _ in range(INTERACTIONS // len(SCRIPTS))]
    asked = [{"model": "gemini-3.8-flash", "input": f"{kind};"} for kind in kinds]
    ends = {
        job.id: ENDED_AS.get(kind, kind)
        for job, kind in zip(system.each(asked), kinds, strict=True)
    }
    for outcome in BATCHES * 2:
        config = {"display_name": f"{outcome};"}
        ends[system.start.batch(model="m", src=[ROW], config=config).id] = outcome
    for outcome in VIDEOS:
        ends[system.start.video(model="veo", prompt=f"{outcome};").id] = outcome
    with closing(Gemini("test", base_url=system.simulator.url)) as gemini:  # nobody registers it
        ends[gemini.starts.batch(model="m", src=[ROW])] = "succeeded"
    return ends


def last_of(system: System, job_id: str) -> Job | None:
    for kind in ("interaction", "batch", "video"):
        if job := system.ledgers.jobs.get(kind, job_id):
            return system.follow(job_id)[-1] if kind == "interaction" else job
    return None


def troubled(system: System) -> list[str]:
    return [job.id for job in system.ledgers.jobs.list(troubled=True)]


def states(system: System, ends: dict[str, str]) -> dict[str, str | None]:
    found = ((job_id, last_of(system, job_id)) for job_id in ends)
    return {job_id: None if job is None else job.state for job_id, job in found}


def counted(system: System, program: str, metric: str) -> float:
    """The sum of a metric's lines that begin like *metric*."""
    url = f"http://127.0.0.1:{system.admin_ports[program]}/metrics"
    lines = urllib3.request("GET", url).data.decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(metric))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_job_ends_exactly_once_though_a_third_of_the_events_is_lost(system: System) -> None:
    with closing(Fetched(system.amqp_url)) as fetched:
        ends = start(system)
        system.start.register.add("interaction", "v1_never_was")
        eventually(
            lambda: states(system, ends) == ends,
            seconds=600,
            why=f"every job ended as it should, see {system.folder}",
        )
        eventually(lambda: troubled(system) == ["v1_never_was"], why="one has vanished")
        system.wait_until_drained()
        told_late(system)
        completed = {
            job.id
            for job in system.all_jobs()
            if (job.kind, job.state) == ("interaction", "completed")
        }

        # A queue is empty, too, while its last message is being handled.
        eventually(lambda: fetched.seen().keys() == completed, why="all completed are announced")
        assert set(fetched.seen().values()) == {1}
    assert len(system.effects) == len(set(system.effects)) == 4 * INTERACTIONS // len(SCRIPTS)
    assert any(attempt.kind == "lost" for attempt in system.simulator.attempts)
    assert counted(system, "reconciler", "gemhooks_reconciler_missed_events_total") > 0
    gauge = 'gemhooks_jobs{condition="vanished",kind="interaction"}'
    eventually(lambda: counted(system, "reconciler", gauge) == 1, why="it shows in the metric")


def told_late(system: System) -> None:
    """Now the real events come, after the polled ones: each is recognised as done."""
    system.simulator.faults = Faults()
    polled = [job for job in system.all_jobs() if job.reported == f"{job.kind}.{job.state}"][:5]
    is_copy = 'gemhooks_messages_total{event_type="'
    before = counted(system, "one", is_copy)
    for job in polled:
        urllib3.request(
            "POST",
            f"{system.simulator.url}/control/events",
            json={"type": job.reported, "data": {"id": job.id}},
        )
    eventually(
        lambda: counted(system, "one", is_copy) >= before + len(polled), why="they were handled"
    )
    system.wait_until_drained()
