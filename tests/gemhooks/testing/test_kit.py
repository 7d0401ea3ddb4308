"""The kit for tests of consumers does what a worker would."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gemhooks import Consumers, Reject, Retry, events, publish
from gemhooks.messages import Message
from gemhooks.testing import VARIANTS, body, event, handle, message
from tests.integration.processes import ROOT, clean_env


@pytest.mark.parametrize("kind", events.KNOWN)
def test_every_type_can_be_made_up_and_is_parsed_to_its_class(kind: type[events.Event]) -> None:
    for name in kind.types:
        assert type(event(name, id="x")) is kind


@pytest.mark.parametrize("variant", VARIANTS)
def test_in_every_variant_the_id_and_the_metadata_are_found(variant: str) -> None:
    found = event("batch.failed", id="b1", variant=variant, user_metadata={"job": 7})

    assert (found.data.id, found.data.user_metadata) == ("b1", {"job": 7})


def test_an_unknown_variant_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"none of data\.id"):
        body("batch.failed", variant="elsewhere")


def test_what_a_handler_publishes_is_seen() -> None:
    consumers = Consumers()

    @consumers.on(events.InteractionFetched, queue="answers")
    def tell(event: events.InteractionFetched) -> None:
        publish(Message("told", "answer.told", event.data.text.encode()))

    ended = handle(consumers, message("interaction.fetched", text="hello"))

    assert ended.is_done
    assert [each.body for each in ended.published] == [b"hello"]


def consumers_that_raise(error: Exception) -> Consumers:
    consumers = Consumers()

    @consumers.on("batch.*", queue="q", retry="5s 1m")
    def fail(_event: events.Event) -> None:
        raise error

    return consumers


def test_retries_and_dead_letters_are_seen() -> None:
    first = handle(consumers_that_raise(Retry("later", after=60)), message("batch.failed"))
    given_up = handle(consumers_that_raise(KeyError("x")), message("batch.failed", attempt=3))
    rejected = handle(consumers_that_raise(Reject("not ours")), message("batch.failed"))

    assert (first.retry_after, first.dead_letter, first.is_done) == (60, None, False)
    assert given_up.dead_letter is not None
    assert given_up.dead_letter.reason == "gave_up"
    assert rejected.dead_letter is not None
    assert rejected.dead_letter.reason == "rejected"


def test_an_event_that_nobody_takes_is_an_error() -> None:
    with pytest.raises(LookupError, match=r"no handler takes video\.generated from any queue"):
        handle(consumers_that_raise(KeyError()), message("video.generated"))


def test_the_fixtures_are_there_for_a_user_and_the_simulator_calls_back(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        textwrap.dedent("""
            import os

            from google import genai
            from google.genai import types

            from gemhooks import Consumers, events

            consumers = Consumers()
            seen = []
            consumers.on(events.BatchSucceeded, queue="q")(lambda event: seen.append(event.data.id))


            def test_a_handler(gemhooks_handle, gemhooks_message):
                told = gemhooks_message("batch.succeeded", id="b")
                assert gemhooks_handle(consumers, told).is_done
                assert seen == ["b"]


            def test_a_job(gemini_simulator):
                base = os.environ["GEMHOOKS_GEMINI_BASE_URL"]
                client = genai.Client(
                    api_key="simulated", http_options=types.HttpOptions(base_url=base)
                )
                made = client.interactions.create(
                    model="gemini-3.8-flash",
                    input="hello",
                    background=True,
                    webhook_config={"uris": ["http://127.0.0.1:9/"]},
                )
                assert made.id
        """),
        "utf-8",
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "gemhooks.testing.plugin",
        "test_mine.py",
    ]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=clean_env() | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
