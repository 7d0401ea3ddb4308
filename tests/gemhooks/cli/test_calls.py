"""``gemhooks calls`` as a person or a script uses it."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner, Result

from gemhooks import topology
from gemhooks.cli import app
from gemhooks.errors import Misconfigured, Unavailable
from gemhooks.functions import Call, Outcome
from gemhooks.functions import Result as Answer
from gemhooks.functions.chains import Place, SendState
from gemhooks.functions.records import CallState, Terms
from gemhooks.ledger import Ledgers, open_ledger
from gemhooks.queues.connect import connect

CALL = Call("c1", "charge", {"order": "o1"})


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        "GEMHOOKS_DATABASE_URL": f"sqlite:///{tmp_path}/ledger.db",
        "GEMHOOKS_BROKER_URL": f"sqlite:///{tmp_path}/queue.db",
    }


@pytest.fixture
def ledgers(env: dict[str, str]) -> Iterator[Ledgers]:
    opened = open_ledger(env["GEMHOOKS_DATABASE_URL"])
    yield opened
    opened.close()


def calls(env: dict[str, str], *arguments: str) -> Result:
    return CliRunner().invoke(app, ["calls", *arguments], env=env)


def done(env: dict[str, str], *arguments: str) -> str:
    ended = calls(env, *arguments)
    assert ended.exit_code == 0, ended.output or ended.exception
    return ended.stdout


def refused(env: dict[str, str], *arguments: str) -> str:
    ended = calls(env, *arguments)
    assert isinstance(ended.exception, Misconfigured), ended.output
    return str(ended.exception)


def as_json(env: dict[str, str], *arguments: str) -> Any:
    return json.loads(done(env, *arguments, "--format", "json"))


def woken(env: dict[str, str]) -> list[str]:
    """The interactions that a worker was asked to look at."""
    broker = connect(env["GEMHOOKS_BROKER_URL"], publish_timeout=60)
    try:
        found = broker.browse(topology.FUNCTIONS.name, limit=100)
        return [orjson.loads(message.body)["data"]["id"] for message, _ in found]
    finally:
        broker.close()


def waits_for_approval(ledgers: Ledgers, call: Call = CALL) -> str:
    terms = Terms(lease=30, again=False, approval=True)
    return str(ledgers.calls.claim("v1_a", call, terms).record.id)


def unknown(ledgers: Ledgers) -> str:
    once = Terms(lease=0.02, again=False, approval=False)
    deadline = time.monotonic() + 60
    while (claim := ledgers.calls.claim("v1_a", CALL, once)).record.state is not CallState.UNKNOWN:
        assert time.monotonic() < deadline
    return str(claim.record.id)


def lost(ledgers: Ledgers) -> str:
    ledgers.continuations.begin("v1_a", Place("v1_a"), lease=30, wait=0)
    ledgers.continuations.lost("v1_a")
    begun = ledgers.continuations.begin("v1_a", Place("v1_a"), lease=30, wait=0)
    assert begun.continuation.state is SendState.UNKNOWN
    return f"c{begun.continuation.id}"


def test_what_waits_for_a_person_is_listed(env: dict[str, str], ledgers: Ledgers) -> None:
    approval = waits_for_approval(ledgers, Call("c0", "refund"))
    parked, continuation = unknown(ledgers), lost(ledgers)

    assert [each["id"] for each in as_json(env, "list")] == [int(parked), int(approval)]
    assert [each["id"] for each in as_json(env, "list", "--approval")] == [int(approval)]
    listed = as_json(env, "list", "--unknown")
    assert [each["id"] for each in listed] == [int(parked), continuation]
    assert "(continuation)" in done(env, "list", "--unknown")


def test_a_call_is_shown_with_its_arguments(env: dict[str, str], ledgers: Ledgers) -> None:
    number = waits_for_approval(ledgers)

    shown = done(env, "show", number)

    assert '{"order": "o1"}' in shown
    assert "approval" in shown


def test_an_approved_call_may_run_and_a_worker_is_woken(
    env: dict[str, str], ledgers: Ledgers
) -> None:
    number = waits_for_approval(ledgers)

    said = done(env, "approve", number)
    done(env, "approve", number)

    assert said == f"call {number} (charge) is ready; a worker goes on with it.\n"
    assert woken(env) == ["v1_a", "v1_a"]
    terms = Terms(lease=30, again=False, approval=True)
    assert ledgers.calls.claim("v1_a", CALL, terms).granted
    assert "too late to approve" in refused(env, "approve", number)


def test_a_worker_is_woken_through_rabbitmq(
    env: dict[str, str], ledgers: Ledgers, amqp_url: str
) -> None:
    env["GEMHOOKS_BROKER_URL"] = amqp_url

    done(env, "approve", waits_for_approval(ledgers))

    assert woken(env) == ["v1_a"]


def test_a_broker_that_is_away_is_said_and_the_decision_stays(
    env: dict[str, str], ledgers: Ledgers
) -> None:
    number = waits_for_approval(ledgers)
    env["GEMHOOKS_BROKER_URL"] = "amqp://guest:guest@127.0.0.1:1/"

    ended = calls(env, "approve", number)

    assert isinstance(ended.exception, Unavailable)
    assert "say it again later" in str(ended.exception)
    found = ledgers.calls.get(int(number))
    assert found is not None
    assert found.state is CallState.READY


def test_a_rejected_call_never_runs_and_the_model_is_told(
    env: dict[str, str], ledgers: Ledgers
) -> None:
    number = waits_for_approval(ledgers)

    done(env, "reject", number, "--reason", "too much")
    done(env, "reject", number)

    answer = claimed(ledgers)
    assert (answer.result, answer.is_error, answer.outcome) == ("too much", True, Outcome.REJECTED)
    assert "too late to approve" in refused(env, "approve", number)


@pytest.mark.parametrize(
    ("said", "told"),
    [('{"charged": 5}', {"charged": 5}), ("done", "done"), ("5", {"result": 5}), ("", "")],
)
def test_an_unknown_call_is_settled_with_what_it_did(
    env: dict[str, str], ledgers: Ledgers, said: str, told: Any
) -> None:
    done(env, "resolve", unknown(ledgers), "--result", said)

    answer = claimed(ledgers)
    assert (answer.result, answer.is_error) == (told, False)
    assert woken(env) == ["v1_a"]


def test_an_unknown_call_is_run_again_when_a_person_says_so(
    env: dict[str, str], ledgers: Ledgers
) -> None:
    done(env, "resolve", unknown(ledgers), "--rerun")

    terms = Terms(lease=30, again=False, approval=False)
    assert ledgers.calls.claim("v1_a", CALL, terms).granted


def test_an_unknown_call_is_given_up_when_a_person_says_so(
    env: dict[str, str], ledgers: Ledgers
) -> None:
    done(env, "resolve", unknown(ledgers), "--fail")

    answer = claimed(ledgers)
    assert (answer.outcome, answer.is_error) == (Outcome.GIVEN_UP, True)


def test_a_lost_continuation_is_sent_again_found_or_given_up(
    env: dict[str, str], ledgers: Ledgers
) -> None:
    number = lost(ledgers)

    done(env, "resolve", number, "--rerun")
    assert ledgers.continuations.begin("v1_a", Place("v1_a"), lease=30, wait=0).granted
    ledgers.continuations.lost("v1_a")
    ledgers.continuations.begin("v1_a", Place("v1_a"), lease=30, wait=0)
    done(env, "resolve", number, "--result", "v1_b")

    found = ledgers.continuations.of("v1_a")
    assert found is not None
    assert (found.state, found.successor_id) == (SendState.SENT, "v1_b")
    assert "too late" in refused(env, "resolve", number, "--fail")
    assert "nothing to approve" in refused(env, "approve", number)


def test_a_given_up_continuation_fails_its_job(env: dict[str, str], ledgers: Ledgers) -> None:
    done(env, "resolve", lost(ledgers), "--fail")

    job = ledgers.jobs.get("interaction", "v1_a")
    assert job is not None
    assert job.state == "failed"


def test_one_that_is_registered_after_it_asked_is_looked_at(
    env: dict[str, str], ledgers: Ledgers
) -> None:
    ledgers.jobs.record("interaction", "v1_late", "requires_action")

    for name in ("v1_late", "v1_new"):
        ended = CliRunner().invoke(app, ["jobs", "add", name], env=env)
        assert ended.exit_code == 0, ended.exception

    assert woken(env) == ["v1_late"]


@pytest.mark.parametrize("odd", ["7", "c7", "x", "c", "", "٣", "9" * 30, "v1_a/c1"])
def test_an_id_that_nobody_has_is_one_sentence(
    env: dict[str, str], ledgers: Ledgers, odd: str
) -> None:
    assert "gemhooks calls list" in refused(env, "approve", odd)


@pytest.mark.parametrize("said", [(), ("--rerun", "--fail"), ("--result", "x", "--fail")])
def test_one_decision_at_a_time(
    env: dict[str, str], ledgers: Ledgers, said: tuple[str, ...]
) -> None:
    assert "one of" in refused(env, "resolve", unknown(ledgers), *said)


def claimed(ledgers: Ledgers) -> Answer:
    terms = Terms(lease=30, again=True, approval=False)
    return ledgers.calls.claim("v1_a", CALL, terms).record.answer_to(CALL)
