"""Jobs move on, results are found."""

from itertools import pairwise

import pytest

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


def test_a_result_stored_again_is_one_result(ledgers: Ledgers) -> None:
    ledgers.results.record("video", "id", "file:///a.mp4", 1)
    ledgers.results.record("video", "id", "file:///a.mp4", 2**40)
    (found,) = ledgers.results.get("video", "id")
    assert found == Result("video", "id", "file:///a.mp4", 2**40, found.stored_at)
    assert ledgers.results.list("video") == (found,)
    assert ledgers.results.list("batch") == ()
