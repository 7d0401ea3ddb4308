"""The environment, and the one sentence for each mistake in it."""

from pathlib import Path

import orjson
import pytest
from msgspec import convert
from msgspec.structs import fields
from structlog.testing import capture_logs

from gemhooks.errors import Misconfigured
from gemhooks.settings import Settings, known_names
from gemhooks.spelling import SecretText, schedule


def test_nothing_set_runs_on_embedded_parts() -> None:
    settings = Settings.from_env({})

    assert settings.broker_url.get_secret_value().startswith("sqlite:///")
    assert settings.schemes == ("v1",)


def test_a_file_stands_in_for_each_variable(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("whsec_x\n")

    settings = Settings.from_env({"GEMINI_WEBHOOK_SECRET_FILE": str(secret)})

    assert settings.webhook_secret.get_secret_value() == "whsec_x"


def test_a_folder_of_secrets_is_all_of_them_without_hidden_files(tmp_path: Path) -> None:
    for name, text in (("a", "whsec_1"), ("b", "whsec_2"), ("..data", "old")):
        (tmp_path / name).write_text(text)

    settings = Settings.from_env({"GEMINI_WEBHOOK_SECRET_FILE": str(tmp_path)})

    assert settings.webhook_secret.get_secret_value() == "whsec_1 whsec_2"


def test_either_name_of_the_key_counts() -> None:
    settings = Settings.from_env({"GOOGLE_API_KEY": "k"})

    assert settings.gemini_api_key.get_secret_value() == "k"


def test_an_empty_variable_counts_as_not_set() -> None:
    """Compose's `${GEMINI_API_KEY:-}` and a ConfigMap without a value set it so."""
    empty = dict.fromkeys(known_names(Settings), " ")

    assert Settings.from_env(empty) == Settings.from_env({})
    assert Settings.from_env({"GEMINI_API_KEY": "", "GOOGLE_API_KEY": "k"}) == Settings.from_env(
        {"GOOGLE_API_KEY": "k"}
    )


def test_white_space_around_a_value_is_no_part_of_it() -> None:
    settings = Settings.from_env({"GEMINI_API_KEY": " k\n", "GEMHOOKS_BROKER_URL": "amqp://h\n"})

    assert settings.gemini_api_key.get_secret_value() == "k"
    assert settings.broker_url.get_secret_value() == "amqp://h"


def test_times_and_lists_may_be_written_as_the_page_says() -> None:
    env = {"GEMHOOKS_TOLERANCE": "5m", "GEMHOOKS_RETRY_SCHEDULE": "5s, 30s,2m"}
    settings = Settings.from_env(env)

    assert settings.tolerance == 300
    assert settings.retry_schedule == (5.0, 30.0, 120.0)
    assert schedule("5s,30s") == (5.0, 30.0)


@pytest.mark.parametrize("name", ["log_level", "log_format", "ledger", "declare", "functions_for"])
def test_a_word_may_be_written_in_capitals(name: str) -> None:
    default = getattr(Settings.from_env({}), name)

    assert (
        getattr(Settings.from_env({f"GEMHOOKS_{name.upper()}": default.upper()}), name) == default
    )


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        ({"GEMHOOKS_BROKR_URL": "x"}, "did you mean GEMHOOKS_BROKER_URL?"),
        ({"GEMHOOKS_PORT": "99999"}, "GEMHOOKS_PORT is not usable"),
        (
            {"GEMHOOKS_GRACE": "5 hours"},
            "GEMHOOKS_GRACE is not usable: '5 hours' is no time such as 30s, 2m or 1h.",
        ),
        (
            {"GEMHOOKS_RETRY_SCHEDULE": "5s; 30s"},
            "GEMHOOKS_RETRY_SCHEDULE is not usable: '5s; 30s' is no list of waits such as '5s 1m",
        ),
        ({"GEMHOOKS_RETRY_SCHEDULE": ","}, "',' is no list of waits such as '5s 1m 10m'"),
        (
            {"GEMHOOKS_CONCURRENCY": "0"},
            "GEMHOOKS_CONCURRENCY is not usable: expected `int` >= 1.",
        ),
        ({"GEMHOOKS_CONCURRENCY": "many"}, "GEMHOOKS_CONCURRENCY is not usable: 'many' is no numb"),
        ({"GEMHOOKS_CONCURRENCY": "1.5"}, "GEMHOOKS_CONCURRENCY is not usable"),
        ({"GEMHOOKS_CONCURRENCY": "nan"}, "GEMHOOKS_CONCURRENCY is not usable"),
        ({"GEMHOOKS_RECONCILE_RATE": "nan"}, "GEMHOOKS_RECONCILE_RATE is not usable"),
        ({"GEMHOOKS_GRACE": "-5"}, "GEMHOOKS_GRACE is not usable: '-5' is no time"),
        ({"GEMHOOKS_TOLERANCE": "1.5"}, "GEMHOOKS_TOLERANCE is not usable"),
        ({"GEMHOOKS_TRACING": "2"}, "GEMHOOKS_TRACING is not usable: '2' is neither 1 nor 0."),
        (
            {"GEMHOOKS_LEDGER": "none"},
            "GEMHOOKS_LEDGER is not usable: 'none' is none of on, off.",
        ),
        ({"GEMHOOKS_LEASE": "inf"}, "GEMHOOKS_LEASE is not usable"),
        ({"GEMHOOKS_DRAIN_DELAY": "nan"}, "GEMHOOKS_DRAIN_DELAY is not usable"),
        ({"GEMHOOKS_RETRY_SCHEDULE": "5s inf"}, "GEMHOOKS_RETRY_SCHEDULE is not usable"),
        ({"GEMHOOKS_GEMINI_TIMEOUT": "0"}, "GEMHOOKS_GEMINI_TIMEOUT is not usable"),
        ({"GEMHOOKS_PUBLISH_TIMEOUT": "0"}, "GEMHOOKS_PUBLISH_TIMEOUT is not usable"),
        (
            {"GEMHOOKS_GEMINI_BASE_URL": "localhost:8787"},
            "GEMHOOKS_GEMINI_BASE_URL is not usable: it must begin with https:// or http://",
        ),
        ({"GEMINI_API_KEY_FILE": "/nowhere/key"}, "GEMINI_API_KEY_FILE=/nowhere/key can't be read"),
    ],
)
def test_a_mistake_is_one_sentence(env: dict[str, str], sentence: str) -> None:
    with pytest.raises(Misconfigured, match=sentence.replace("?", r"\?")) as caught:
        Settings.from_env(env)

    assert "\n" not in str(caught.value)


def test_a_name_unlike_all_others_is_only_mentioned() -> None:
    with capture_logs() as lines:
        Settings.from_env({"GEMHOOKS_ZZZ": "1", "GEMHOOKS_TEST_AMQP_URL": "x"})

    assert [line["name"] for line in lines] == ["GEMHOOKS_ZZZ"]


def test_the_links_that_kubernetes_sets_are_not_ours() -> None:
    settings = Settings.from_env(
        {
            "GEMHOOKS_PORT": "tcp://10.0.0.1:80",
            "GEMHOOKS_SERVICE_HOST": "10.0.0.1",
            "GEMHOOKS_PORT_80_TCP_ADDR": "10.0.0.1",
        }
    )

    assert settings.port == 8080


def test_durations_have_units() -> None:
    settings = Settings.from_env({"GEMHOOKS_RETRY_SCHEDULE": "5s 2m 1h", "GEMHOOKS_GRACE": "1m"})

    assert settings.retry_schedule == (5.0, 120.0, 3600.0)
    assert settings.grace == 60.0


@pytest.mark.parametrize(("text", "meant"), [("1", True), ("Yes", True), ("0", False)])
def test_a_switch_is_on_or_off(text: str, *, meant: bool) -> None:
    assert Settings.from_env({"GEMHOOKS_TRACING": text}).tracing is meant


def test_secrets_are_not_shown() -> None:
    settings = Settings.from_env({"GEMINI_API_KEY": "AIzaSecret"})
    secret = settings.gemini_api_key

    assert "AIzaSecret" not in f"{settings} {settings!r} {secret} {secret!r}"
    assert "AIzaSecret" not in orjson.dumps({"key": secret}, default=repr).decode()


def test_secrets_are_compared_and_counted_by_their_text() -> None:
    assert SecretText("a") == SecretText("a") != SecretText("b")
    assert len({SecretText("a"), SecretText("a")}) == 1
    assert SecretText("a")
    assert not SecretText()


def test_each_default_is_one_that_could_be_written() -> None:
    for field in fields(Settings):
        assert convert(field.default, field.type) == field.default


def test_what_runs_may_end_before_compose_or_kubernetes_kill_it() -> None:
    assert Settings().grace < 10
