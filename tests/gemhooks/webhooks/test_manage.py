"""``gemhooks webhook``: every method of the reference, against the simulator."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gemhooks import signing
from gemhooks.gemini.webhooks import Webhooks
from gemhooks.keys import SigningSecrets
from gemhooks.simulator import Faults, Simulator
from gemhooks.webhooks.wishes import SUBSCRIBABLE
from tests.gemhooks.webhooks.conftest import Run

URI = "https://example.com/webhooks/gemini"
Json = Callable[..., Any]


def test_a_new_secret_goes_straight_into_the_folder_and_nowhere_else(
    run: Run, json_of: Json, tmp_path: Path
) -> None:
    result = run("create", "--uri", URI, "--save-to", f"{tmp_path}/secrets/")

    assert result.exit_code == 0
    (file,) = (tmp_path / "secrets").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    (secret,) = SigningSecrets(path=file.parent).secrets  # what a receiver reads
    (hook,) = json_of("list")
    assert signing.truncated(secret.key) == hook["signing_secrets"][0]["truncated_secret"]
    assert file.read_text().strip() not in result.output


def test_a_new_secret_joins_those_in_a_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    for _ in range(2):
        run("create", "--uri", URI, "--save-to", str(file))

    assert len(SigningSecrets(path=file).secrets) == 2
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_file_that_the_receiver_will_read_may_be_yet_to_be_made(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_WEBHOOK_SECRET_FILE", str(tmp_path / "secret"))

    assert run("list").exit_code == 0
    assert run("create", "--uri", URI).exit_code == 0
    assert len(SigningSecrets(path=tmp_path / "secret").secrets) == 1


def test_a_secret_is_printed_only_when_asked_for_and_only_on_stdout(run: Run) -> None:
    result = run("create", "--uri", URI, "--show-secret")

    assert "whsec_" in result.stdout
    assert "whsec_" not in result.stderr


def test_nothing_is_created_while_its_secret_has_no_place(
    refusal: Callable[..., str], api: Webhooks, tmp_path: Path
) -> None:
    (tmp_path / "full").write_text("no secret")

    assert "--save-to" in refusal("create", "--uri", URI)
    assert "not complete" in refusal("create", "--uri", URI, "--save-to", str(tmp_path / "full"))
    assert api.list() == ()


def test_a_list_comes_whole_however_many_pages_it_has(api: Webhooks) -> None:
    created = [api.create(uri=URI, events=("batch.failed",)).id for _ in range(5)]

    assert [hook.id for hook in api.list(page_size=2)] == created


@pytest.mark.parametrize("form", ["{}", "webhooks/{}"])
def test_an_id_may_have_its_prefix(api: Webhooks, json_of: Json, form: str) -> None:
    hook = api.create(uri=URI, events=("batch.failed",))

    assert json_of("get", form.format(hook.id))["id"] == hook.id


def test_an_update_changes_what_is_named_only(api: Webhooks, json_of: Json) -> None:
    hook = api.create(uri=URI, events=("batch.failed",), name="mine")

    changed = json_of("update", hook.id, "-e", "video.generated,batch.failed")

    assert (changed["name"], changed["uri"]) == ("mine", URI)
    assert changed["subscribed_events"] == ["batch.failed", "video.generated"]


def test_a_webhook_is_disabled_enabled_and_deleted(
    api: Webhooks, json_of: Json, run: Run, refusal: Callable[..., str]
) -> None:
    hook = api.create(uri=URI, events=SUBSCRIBABLE)

    assert json_of("disable", hook.id)["state"] == "disabled"
    assert json_of("enable", hook.id)["state"] == "enabled"
    assert run("delete", hook.id).exit_code == 1  # nobody said yes
    assert run("delete", hook.id, "--yes").exit_code == 0
    assert refusal("get", hook.id) == f"Gemini knows no webhook {hook.id}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-e", "interaction.complete"), "Did you mean interaction.completed?"),
        (("-e", "batch.cancelled"), "lets nobody subscribe"),
        (("-e", "nonsense"), "They are batch.succeeded"),
        (("--uri", "http://example.com/x"), "https only"),
        (("--uri", "https://user:secret@example.com/x"), "no user"),
        (("--uri", "https://[::1"), "not a URL"),
        (("--uri", "ftp://example.com"), "https://"),
        (("--uri", "https://exa mple.com"), "plain characters"),
        ((), "say what to change"),
    ],
)
def test_a_wrong_wish_is_refused_before_it_is_sent(
    refusal: Callable[..., str], arguments: tuple[str, ...], said: str
) -> None:
    assert said in refusal("update", "any", *arguments)


@pytest.mark.parametrize("uri", ["http://localhost:1/x", "http://127.0.0.1/x", "http://[::1]/x"])
def test_http_is_fine_on_a_loopback_host(json_of: Json, uri: str) -> None:
    assert json_of("create", "--uri", uri, "--show-secret")["uri"] == uri


def test_what_may_be_repeated_is_until_gemini_answers(
    gemini: Simulator, api: Webhooks, json_of: Json
) -> None:
    api.create(uri=URI, events=("batch.failed",))
    gemini.faults = Faults(rate_limit_first=2, retry_after=0)

    assert len(json_of("list")) == 1


def test_a_creation_is_sent_once_and_says_how_to_see_what_became_of_it(
    gemini: Simulator, refusal: Callable[..., str]
) -> None:
    gemini.faults = Faults(rate_limit_first=1, retry_after=0)

    said = refusal("create", "--uri", URI, "--show-secret")

    assert "429" in said
    assert "webhook list" in said


def test_no_command_shows_the_key(run: Run, api: Webhooks) -> None:
    hook = api.create(uri=URI, events=("batch.failed",))
    for command in (("list",), ("get", hook.id), ("get", "none"), ("ping", hook.id)):
        result = run(*command)

        assert "AIza" not in result.output + repr(result.exception)
