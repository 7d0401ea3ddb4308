"""``gemhooks webhook ping --wait`` says whether this receiver really got it."""

from pathlib import Path
from typing import Any

import pytest

from gemhooks.gemini.webhooks import SigningSecret, Webhook, Webhooks
from gemhooks.webhooks.pinging import Pinger, missing
from gemhooks.webhooks.places import Held, SecretPlace
from gemhooks.webhooks.receivers import Counts, Receivers, added
from tests.gemhooks.webhooks.conftest import Run
from tests.gemhooks.webhooks.helpers import RunningReceiver, receiver
from tests.services.ports import free_port

HOOK = Webhook(id="abc", uri="https://x.y", signing_secrets=(SigningSecret(truncated_secret="t"),))


def subscribed(api: Webhooks, here: RunningReceiver, place: Path) -> Webhook:
    """A webhook that calls *here* and whose secret lies in *place*."""
    hook = api.create(uri=here.uri, events=("batch.failed",))
    assert hook.new_signing_secret
    SecretPlace(place).save(hook.new_signing_secret.get_secret_value(), hook.id)
    return hook


@pytest.fixture(params=["sqlite", "rabbitmq"])
def broker(request: pytest.FixtureRequest) -> str:
    return "" if request.param == "sqlite" else str(request.getfixturevalue("amqp_url"))


def test_a_ping_that_arrives_is_proven(
    run: Run, api: Webhooks, tmp_path: Path, broker: str
) -> None:
    place = tmp_path / "secret"
    hook = api.create(uri=f"http://127.0.0.1:{free_port()}/x", events=("batch.failed",))
    assert hook.new_signing_secret
    SecretPlace(place).save(hook.new_signing_secret.get_secret_value(), hook.id)
    with receiver(tmp_path, place, broker=broker) as here:
        api.update(hook.id, uri=here.uri)
        result = run("ping", hook.id, "--wait", "--timeout", "60", "--receiver", here.admin)

    assert result.exit_code == 0, result.output
    assert "the queue confirmed it" in result.output


def test_a_ping_that_is_refused_or_lost_is_told_apart(
    run: Run, api: Webhooks, tmp_path: Path
) -> None:
    SecretPlace(tmp_path / "other").save("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "other")
    with receiver(tmp_path, tmp_path / "other") as here:
        hook = api.create(uri=f"http://127.0.0.1:{free_port()}/x", events=("batch.failed",))
        options = ("--wait", "--receiver", here.admin)
        lost = run("ping", hook.id, *options, "--timeout", "0.5")
        api.update(hook.id, uri=here.uri)
        refused = run("ping", hook.id, *options, "--timeout", "5")

    assert (refused.exit_code, lost.exit_code) == (1, 1)
    assert "does not hold the secret" in refused.output
    assert "lead to this receiver" in lost.output


@pytest.mark.parametrize(
    ("seen", "is_it"),
    [
        (Counts(), False),
        (Counts(known=3, verified={"mine": 3}), False),
        (Counts(unknown=1), True),  # a receiver that counts no keys
        (Counts(unknown=1, verified={"mine": 1}), True),
        (Counts(unknown=1, verified={"nobody knows": 1}), True),
        (Counts(unknown=1, verified={"another's": 1}), False),  # another webhook's ping
    ],
)
def test_only_an_event_signed_for_that_webhook_is_its_ping(seen: Counts, *, is_it: bool) -> None:
    api: Any = None
    held = (Held("mine", "t"), Held("another's", "u"))

    assert Pinger(api, Receivers(()), held)._is_it(seen, HOOK) is is_it  # noqa: SLF001


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (Counts(refused={"too_old": 2, "mismatch": 1}), "clock"),
        (Counts(refused={"mismatch": 1}), "rotate abc"),
        (Counts(unpublished=1), "broker"),
        (Counts(known=4), "the way is open"),
        (Counts(), "DNS"),
    ],
)
def test_each_way_to_miss_a_ping_has_its_remedy(seen: Counts, said: str) -> None:
    assert said in missing(seen, HOOK)


def test_a_receiver_that_restarted_meanwhile_counts_from_nothing() -> None:
    before, after = Counts(unknown=7, refused={"mismatch": 3}), Counts(unknown=1, verified={"k": 1})

    assert added([before], [after]) == after


def test_a_key_counts_as_loaded_once_every_receiver_has_it() -> None:
    after = [Counts(keys=frozenset("ab")), Counts(keys=frozenset("bc"))]

    assert added([Counts(), Counts()], after).keys == {"b"}
