"""Every form in which Gemini was seen to describe a webhook."""

from datetime import UTC, datetime

import pytest

from gemhooks.errors import Misconfigured
from gemhooks.gemini.webhooks import Webhook, webhook_id

HOOK = {"uri": "https://x.y", "subscribed_events": ["batch.failed"], "state": "enabled"}


@pytest.mark.parametrize(
    "given",
    [
        {"id": "abc", "name": "mine"},
        {"id": "webhooks/abc", "name": "mine"},
    ],
)
def test_the_id_is_the_bare_one(given: dict[str, str]) -> None:
    assert (Webhook.model_validate({**HOOK, **given}).id, given["name"]) == ("abc", "mine")


@pytest.mark.parametrize("given", [{"name": "webhooks/abc"}, {"id": None, "name": "webhooks/abc"}])
def test_a_resource_name_gives_the_id_and_is_no_name(given: dict[str, str]) -> None:
    hook = Webhook.model_validate({**HOOK, **given})

    assert (hook.id, hook.name) == ("abc", "")


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-01-22T12:00:00Z", datetime(2026, 1, 22, 12, tzinfo=UTC)),
        ("2026-01-22T12:00:00.123456789Z", datetime(2026, 1, 22, 12, 0, 0, 123456, tzinfo=UTC)),
        ("2026-01-22T14:00:00+02:00", datetime(2026, 1, 22, 12, tzinfo=UTC)),
        (1769083200, datetime(2026, 1, 22, 12, tzinfo=UTC)),
        ("soon", None),
        (None, None),
    ],
)
def test_a_time_is_read_in_every_form_and_a_bad_one_spoils_nothing(
    time: object, expected: datetime | None
) -> None:
    hook = Webhook.model_validate({**HOOK, "id": "abc", "create_time": time})

    assert hook.create_time == expected


def test_what_google_adds_one_day_is_no_error() -> None:
    hook = Webhook.model_validate(
        {"id": "abc", "state": "paused", "subscribed_events": ["moon.landed"], "colour": "blue"}
    )

    assert (hook.state, hook.subscribed_events) == ("paused", ("moon.landed",))


def test_a_new_secret_is_in_no_repr() -> None:
    hook = Webhook.model_validate({**HOOK, "id": "a", "new_signing_secret": "whsec_abc"})

    assert "whsec_abc" not in f"{hook!r} {hook} {hook.model_dump()}"


@pytest.mark.parametrize("text", ["", "../x", "a/b", "webhooks/", "a b", "webhooks/webhooks/a"])
def test_what_can_be_no_id_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured, match="no webhook's id"):
        webhook_id(text)
