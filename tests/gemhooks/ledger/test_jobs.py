"""Jobs move on, results are found."""

import hashlib
from itertools import pairwise

import pytest
import sqlalchemy as sa

from gemhooks.ledger import Ledgers, Result


@pytest.mark.parametrize("late", ["started", "requires_action", "in_progress", "failed"])
def test_an_end_stays_whatever_is_told_later(ledgers: Ledgers, late: str) -> None:
    ledgers.jobs.record("interaction", "id", "completed", event_type="interaction.completed")
    job = ledgers.jobs.record("interaction", "id", late, event_type=f"interaction.{late}")
    assert (job.state, job.event_type) == ("completed", "interaction.completed")


def test_a_job_goes_from_started_over_action_to_its_end(ledgers: Ledgers) -> None:
    states = ["started", "requires_action", "in_progress", "requires_action", "failed"]
    recorded = [ledgers.jobs.record("interaction", "id", state) for state in states]
    assert [job.state for job in recorded] == states
    assert all(before.created_at == after.created_at for before, after in pairwise(recorded))
    assert all(before.updated_at <= after.updated_at for before, after in pairwise(recorded))


def test_a_start_told_late_marks_the_job_ours_and_keeps_its_state(ledgers: Ledgers) -> None:
    ledgers.jobs.record("interaction", "id", "requires_action")
    ledgers.jobs.record("interaction", "id", "started", ours=True, expected_at=5.0)
    job = ledgers.jobs.record("interaction", "id", "completed")
    assert (job.state, job.ours, job.expected_at) == ("completed", True, 5.0)


def test_metadata_that_is_not_given_stays(ledgers: Ledgers) -> None:
    ledgers.jobs.record("batch", "id", "started", user_metadata={"customer": "a\0b"})
    ledgers.jobs.record("batch", "id", "failed", error_code="13", error_message="bad\0byte")
    job = ledgers.jobs.get("batch", "id")
    assert job is not None
    assert job.user_metadata == {"customer": "a\0b"}
    assert (job.error_code, job.error_message) == ("13", "bad?byte")


def test_jobs_are_listed_by_state_and_kind(ledgers: Ledgers) -> None:
    for kind, name, state in (
        ("batch", "a", "failed"),
        ("video", "b", "failed"),
        ("batch", "c", "x"),
    ):
        ledgers.jobs.record(kind, name, state)
    assert {job.id for job in ledgers.jobs.list()} == {"a", "b", "c"}
    assert [job.id for job in ledgers.jobs.list("failed", "batch")] == ["a"]
    assert len(ledgers.jobs.list(limit=2)) == 2
    assert ledgers.jobs.get("batch", "b") is None


@pytest.mark.parametrize(
    ("kind", "ids"),
    [
        ("batch", ["b1", "batches/b1"]),
        ("batch", ["batches/b1", "b1"]),
        ("video", ["o1", "operations/o1", "models/veo/operations/o1"]),
    ],
)
def test_an_id_with_and_without_its_prefix_is_one_job(
    ledgers: Ledgers, kind: str, ids: list[str]
) -> None:
    for each in ids:
        ledgers.jobs.record(kind, each, "failed")
    (job,) = ledgers.jobs.list()
    assert job.id == max(ids, key=len)
    assert all(ledgers.jobs.get(kind, each) == job for each in ids)


def test_only_an_end_has_a_time(ledgers: Ledgers) -> None:
    started = ledgers.jobs.record("batch", "b", "started")
    ended = ledgers.jobs.record("batch", "b", "failed")
    later = ledgers.jobs.record("batch", "b", "running")
    assert started.ended_at is None
    assert ended.ended_at == later.ended_at is not None


def test_jobs_are_kept_until_nobody_asks_for_them_any_more(ledgers: Ledgers) -> None:
    for name, state in (("old", "failed"), ("silent", "started"), ("new", "failed")):
        ledgers.jobs.record("batch", name, state)
    age = sa.text(
        "UPDATE jobs SET updated_at = updated_at - 91 * 86400,"
        " ended_at = ended_at - 91 * 86400 WHERE id != 'new'"
    )
    ledgers.database.write(lambda connection: connection.execute(age))
    assert [ledgers.handled.sweep(limit=1) for _ in range(3)] == [1, 1, 0]
    assert [job.id for job in ledgers.jobs.list()] == ["new"]


def test_a_result_stored_again_is_one_result(ledgers: Ledgers) -> None:
    ledgers.results.record("video", "id", "file:///a.mp4", 1)
    ledgers.results.record("video", "id", "file:///a.mp4", 2**40)
    (found,) = ledgers.results.get("video", "id")
    assert found == Result("video", "id", "file:///a.mp4", 2**40, found.stored_at)
    assert ledgers.results.list("video") == (found,)
    assert ledgers.results.list("batch") == ()


LONG = "".join(hashlib.sha256(b"%d" % number).hexdigest() for number in range(200))


@pytest.mark.parametrize("odd", [LONG, "\0", "\ud800", "é" * 300], ids=ascii)
def test_any_id_type_or_state_can_be_recorded_and_found(ledgers: Ledgers, odd: str) -> None:
    """A refusal would look like a database that is away, and the message come back for ever."""
    ledgers.jobs.record("video", f"a{odd}", "generated", event_type="video.generated")
    ledgers.jobs.record("video", f"b{odd}", odd[:200], event_type=f"video.{odd[:200]}")
    ledgers.results.record("video", f"a{odd}", "file:///x", 1)

    assert {job.id for job in ledgers.jobs.list()} == {
        job.id for each in "ab" if (job := ledgers.jobs.get("video", each + odd))
    }
    assert len(ledgers.results.get("video", f"a{odd}")) == 1
