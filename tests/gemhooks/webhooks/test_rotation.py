"""A rotation loses no event, whatever Gemini signs with and wherever we are killed."""

import json
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import urllib3

from gemhooks import signing, topology
from gemhooks.gemini.webhooks import Revocation, Webhook, Webhooks
from gemhooks.keys import SigningSecrets
from gemhooks.queues.sqlite import SqliteBroker
from gemhooks.simulator import Simulator
from gemhooks.webhooks.journal import JournalFile
from gemhooks.webhooks.places import SecretPlace
from gemhooks.webhooks.receivers import Counts, Receivers
from gemhooks.webhooks.rotation import Moment
from tests.gemhooks.webhooks.conftest import Run, point_at
from tests.gemhooks.webhooks.helpers import RunningReceiver, receiver
from tests.integration.processes import ROOT, clean_env
from tests.services.waiting import eventually

EVENTS_PER_SECOND = 10
DYING = Path(__file__).with_name("rotate_and_die.py")


@dataclass
class Stage:
    """A webhook at the simulator that calls a real receiver, and the folder of its secrets."""

    gemini: Simulator
    api: Webhooks
    here: RunningReceiver
    hook: Webhook
    place: Path
    queue: Path
    sent: list[str] = field(default_factory=list)

    def options(self) -> tuple[str, ...]:
        return (self.hook.id, "--save-to", str(self.place), "--receiver", self.here.admin)

    def statuses(self) -> dict[str, list[int | None]]:
        """What each event was answered, attempt by attempt, as the sender saw it."""
        found: dict[str, list[int | None]] = {each: [] for each in self.sent}
        for attempt in self.gemini.attempts:
            if attempt.id in found:
                found[attempt.id].append(attempt.status)
        return found

    def counts(self) -> Counts:
        (counts,) = Receivers((self.here.admin,)).look()
        return counts

    def held(self) -> set[str]:
        """Fingerprints of this webhook's secrets, as a receiver would read them."""
        names = [each for each in self.place.iterdir() if each.name.startswith(self.hook.id)]
        return {one.fingerprint for each in names for one in SigningSecrets(path=each).secrets}

    def queued(self) -> list[str]:
        broker = SqliteBroker(f"sqlite:///{self.queue}")
        try:
            found = broker.browse(topology.INTERACTIONS.name, 100_000)
            return [each.id for each, _ in found if each.id in set(self.sent)]
        finally:
            broker.close()

    @contextmanager
    def traffic(self) -> Iterator[None]:
        """Events at a steady pace until the end of the block, then until all are accepted."""
        stop = threading.Event()
        sender = threading.Thread(target=self._send, args=(stop,))
        sender.start()
        try:
            yield
        finally:
            stop.set()
            sender.join()
        eventually(lambda: all(204 in each for each in self.statuses().values()), why="accepted")

    def _send(self, stop: threading.Event) -> None:
        with urllib3.PoolManager() as http:
            while not stop.is_set():
                event = {
                    "type": "interaction.completed",
                    "data": {"id": f"v1_{uuid.uuid4().hex}"},
                    "webhook_id": self.hook.id,
                }
                answer = http.request("POST", f"{self.gemini.url}/control/events", json=event)
                self.sent.extend(answer.json()["ids"])
                stop.wait(1 / EVENTS_PER_SECOND)


@dataclass(frozen=True)
class Theatre:
    """What all tests of this file share: a Gemini, a receiver, its secrets and its queue."""

    gemini: Simulator
    here: RunningReceiver
    place: Path
    queue: Path


@pytest.fixture(scope="module")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    folder = tmp_path_factory.mktemp("theatre")
    (folder / "secrets").mkdir()
    SecretPlace(folder / "secrets").save("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "another")
    with (
        Simulator(delay=0.01, retry_base=0.05) as gemini,
        receiver(folder, folder / "secrets") as here,
    ):
        yield Theatre(gemini, here, folder / "secrets", folder / "queue.db")


@pytest.fixture
def gemini(theatre: Theatre, monkeypatch: pytest.MonkeyPatch) -> Simulator:
    point_at(theatre.gemini, monkeypatch)
    return theatre.gemini


@pytest.fixture
def stage(theatre: Theatre, gemini: Simulator, api: Webhooks) -> Stage:
    hook = api.create(uri=theatre.here.uri, events=("interaction.completed",))
    assert hook.new_signing_secret
    SecretPlace(theatre.place).save(hook.new_signing_secret.get_secret_value(), hook.id)
    stage = Stage(gemini, api, theatre.here, hook, theatre.place, theatre.queue)
    fresh = signing.fingerprint(signing.decode_secret(hook.new_signing_secret.get_secret_value()))
    eventually(lambda: fresh in stage.counts().keys, why="the receiver holds the first secret")
    return stage


def test_no_event_is_lost_where_only_the_new_secret_signs(
    stage: Stage, json_of: Callable[..., Any]
) -> None:
    with stage.traffic():
        eventually(lambda: len(stage.sent) > EVENTS_PER_SECOND, why="events flow")
        report = json_of("rotate", *stage.options(), "--revoke-now")

    answered = stage.statuses()
    assert sorted(stage.queued()) == sorted(answered)  # each once
    assert {each[-1] for each in answered.values()} == {204}
    refused = sum(status != 204 for each in answered.values() for status in each)
    # All refusals are counted; those of the pings are in there too.
    assert refused <= sum(stage.counts().refused.values())
    assert (report["verified"], report["old_until"]) == (True, None)
    assert stage.held() == {report["fingerprint"]}  # the old one is gone


def test_no_event_is_even_refused_where_the_old_secret_still_signs(
    stage: Stage, json_of: Callable[..., Any]
) -> None:
    with stage.traffic():
        report = json_of("rotate", *stage.options())

    assert {status for each in stage.statuses().values() for status in each} == {204}
    assert (report["verified"], report["refused"]) == (True, 0)
    assert report["old_until"].startswith("20")
    assert len(stage.held()) == 2
    assert not [each for each in stage.place.iterdir() if each.stat().st_mode & 0o077]


Killer = Callable[..., int]


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    """A rotation that is killed at a moment; its exit code."""
    with subprocess.Popen(
        [sys.executable, str(DYING)],
        env=clean_env(),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin and process.stdout  # noqa: PT018 - for the type checker
        stdin, stdout = process.stdin, process.stdout
        assert stdout.readline()

        def kill(stage: Stage, moment: str, how: Revocation) -> int:
            given = {
                "moment": moment,
                "webhook": stage.hook.id,
                "url": stage.gemini.url,
                "place": str(stage.place),
                "admin": stage.here.admin,
                "how": how,
            }
            stdin.write(json.dumps(given) + "\n")
            stdin.flush()
            return int(stdout.readline())

        yield kill
        stdin.close()


@pytest.mark.parametrize("how", list(Revocation))
@pytest.mark.parametrize("moment", [each.name for each in Moment if each is not Moment.LOST])
def test_a_rotation_killed_between_two_steps_is_resumed_and_no_event_is_lost(
    stage: Stage, json_of: Callable[..., Any], killer: Killer, moment: str, how: Revocation
) -> None:
    with stage.traffic():
        killed = killer(stage, moment, how)
        report = json_of("rotate", *stage.options(), "--resume")

    assert killed == -signal.SIGKILL
    assert report["verified"]
    assert sorted(stage.queued()) == sorted(stage.sent)
    at_once = how is Revocation.IMMEDIATELY
    assert len(stage.held()) == (1 if at_once else 2)  # the new one; the old one until its end
    assert report["fingerprint"] in stage.held()
    lost = 1 if moment == "MADE" and not at_once else 0
    listed = stage.api.get(stage.hook.id).signing_secrets
    assert len(listed) == len(stage.held()) + lost


def test_two_rotations_at_once_are_one_too_many(stage: Stage, refusal: Callable[..., str]) -> None:
    with JournalFile(SecretPlace(stage.place), stage.hook.id).locked():
        said = refusal("rotate", *stage.options())

    assert "another process rotates" in said
    assert len(stage.api.get(stage.hook.id).signing_secrets) == 1


def test_the_journal_and_the_output_hold_no_secret(stage: Stage, run: Run) -> None:
    result = run("rotate", *stage.options())

    journal = stage.place / f".rotation-{stage.hook.id}.json"
    texts = [each.read_text().strip() for each in stage.place.glob("[!.]*")]
    assert len(texts) > 2
    assert not [each for each in texts if each in result.output + journal.read_text()]
    assert json.loads(journal.read_text())["step"] == "verified"


def test_another_webhooks_secret_stays_where_it_is(
    stage: Stage, json_of: Callable[..., Any]
) -> None:
    others = {each.name for each in stage.place.glob("another-*")}

    json_of("rotate", *stage.options(), "--revoke-now")

    assert {each.name for each in stage.place.glob("another-*")} == others != set()


def test_a_second_rotation_waits_for_the_first(
    gemini: Simulator, api: Webhooks, run: Run, refusal: Callable[..., str], tmp_path: Path
) -> None:
    hook = api.create(uri="http://127.0.0.1:9/x", events=("batch.failed",))
    options = (hook.id, "--save-to", f"{tmp_path}/secrets/", "--receiver", "http://127.0.0.1:9")

    first = run("rotate", *options)

    assert first.exit_code == 1  # saved, but nobody answers who could prove it
    assert "no receiver answers" in first.output
    assert "--resume" in refusal("rotate", *options)
    assert len(SigningSecrets(path=tmp_path / "secrets").secrets) == 1


def test_a_secret_can_be_printed_instead(api: Webhooks, run: Run) -> None:
    hook = api.create(uri="http://127.0.0.1:9/x", events=("batch.failed",))

    assert run("rotate", hook.id, "--show-secret").stdout.startswith("whsec_")


def test_with_nothing_to_resume_nothing_is_done(api: Webhooks, run: Run, tmp_path: Path) -> None:
    hook = api.create(uri="http://127.0.0.1:9/x", events=("batch.failed",))

    result = run("rotate", hook.id, "--save-to", str(tmp_path), "--resume")

    assert (result.exit_code, "nothing to do" in result.output) == (0, True)
    assert len(api.get(hook.id).signing_secrets) == 1
