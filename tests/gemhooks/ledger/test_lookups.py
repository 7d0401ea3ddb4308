"""Which job is looked up when, and what is written about it."""

import time

import pytest
import sqlalchemy as sa

from gemhooks.ledger import Job, Ledgers
from gemhooks.ledger.lookups import MOST_MISSES

EXPECTED = {"interaction": 600.0, "batch": 3600.0, "video": 900.0}


def started(ledgers: Ledgers, name: str = "b1", kind: str = "batch", *, ago: float = 0.0) -> Job:
    """A job that was started *ago* seconds."""
    job = ledgers.jobs.record(kind, name, "started")
    age = sa.text("UPDATE jobs SET created_at = created_at - :ago WHERE id = :id")
    ledgers.database.write(lambda connection: connection.execute(age, {"ago": ago, "id": name}))
    return job


def due(ledgers: Ledgers, shortest: float = 30.0) -> list[str]:
    """What is taken until nothing is due."""
    ledgers.lookups.plan(EXPECTED)
    taken = iter(lambda: ledgers.lookups.take(shortest=shortest), None)
    return [job.id for job in taken]


def test_a_job_is_looked_up_once_it_is_past_its_expected_time(ledgers: Ledgers) -> None:
    started(ledgers, "fresh", ago=3500)
    started(ledgers, "late", ago=3700)
    started(ledgers, "early video", "video", ago=800)
    started(ledgers, "late video", "video", ago=1000)
    ledgers.jobs.record("batch", "told", "started", expected_at=time.time() - 5)

    assert due(ledgers) == ["late", "late video", "told"]


@pytest.mark.parametrize("state", ["failed", "completed", "requires_action"])
def test_what_ended_or_waits_for_functions_of_others_is_not_looked_up(
    ledgers: Ledgers, state: str
) -> None:
    started(ledgers, ago=9999)
    ledgers.jobs.record("batch", "b1", state)

    assert due(ledgers) == []


def test_what_waits_for_functions_of_ours_is_looked_up(ledgers: Ledgers) -> None:
    started(ledgers, ago=9999)
    ledgers.jobs.record("batch", "b1", "requires_action", ours=True)

    assert due(ledgers) == ["b1"]


def test_a_kind_that_no_release_knew_is_looked_up_last(ledgers: Ledgers) -> None:
    started(ledgers, kind="odd", ago=3700)

    assert due(ledgers) == ["b1"]


def test_looks_get_rarer_with_age_and_never_too_rare(ledgers: Ledgers) -> None:
    pauses = []
    for ago in (3600, 40_000, 4_000_000):
        started(ledgers, f"b{ago}", ago=ago)
        due(ledgers)
        next_look = sa.text(f"SELECT look_at FROM jobs WHERE id = 'b{ago}'")  # noqa: S608 - ours
        found = ledgers.database.read(lambda connection: connection.scalar(next_look))  # noqa: B023
        pauses.append(found - time.time())

    assert pauses == pytest.approx([900, 10_000, 21_600], abs=60)


def test_two_reconcilers_share_the_jobs(ledgers: Ledgers, others: Ledgers) -> None:
    for number in range(6):
        started(ledgers, f"b{number}", ago=9999)
    ledgers.lookups.plan(EXPECTED)
    taken = [each.lookups.take(shortest=30) for each in (ledgers, others) * 4]

    found = [job.id for job in taken if job is not None]
    assert len(found) == len(set(found)) == 6


def test_a_job_that_gemini_often_does_not_know_has_vanished_until_it_is_seen_again(
    ledgers: Ledgers,
) -> None:
    job = started(ledgers)
    troubles = [ledgers.lookups.missed(job) for _ in range(MOST_MISSES)]
    vanished = ledgers.jobs.list(troubled=True)
    seen = ledgers.lookups.seen(job, stuck_after=3600)

    assert [each and each.trouble for each in troubles] == [None] * 4 + ["vanished"]
    assert [each.id for each in vanished] == ["b1"]
    assert seen is not None
    assert (seen.trouble, seen.misses) == (None, 0)


def test_what_gemini_says_is_gone_has_vanished_at_once(ledgers: Ledgers) -> None:
    job = ledgers.lookups.missed(started(ledgers), for_good=True)

    assert job is not None
    assert job.trouble == "vanished"


def test_a_job_that_runs_too_long_is_stuck_until_it_ends(ledgers: Ledgers) -> None:
    job = started(ledgers, ago=7200)
    stuck = ledgers.lookups.seen(job, stuck_after=3600)
    counted = ledgers.lookups.tally()
    ended = ledgers.jobs.record("batch", "b1", "failed")

    assert stuck is not None
    assert (stuck.trouble, ended.trouble) == ("stuck", None)
    assert counted == {("batch", "open"): 1, ("batch", "stuck"): 1}
    assert ledgers.lookups.tally() == {}


def test_what_was_reported_is_remembered(ledgers: Ledgers) -> None:
    job = started(ledgers)
    ledgers.lookups.reported(job, "batch.failed")

    found = ledgers.jobs.get("batch", "b1")
    assert found is not None
    assert found.reported == "batch.failed"


def test_an_event_is_known_once_anybody_began_to_handle_it(ledgers: Ledgers) -> None:
    before = ledgers.handled.is_known("q", "batch.failed:b1")
    ledgers.handled.claim("q", "batch.failed:b1", redelivered=False)
    ledgers.handled.release("q", "batch.failed:b1")

    assert (before, ledgers.handled.is_known("q", "batch.failed:b1")) == (False, True)
    assert not ledgers.handled.is_known("other", "batch.failed:b1")
