"""What reaches the log, and what does not."""

import json
from dataclasses import dataclass, field

import pytest

from gemhooks import logs
from tests.integration.processes import script


def test_a_failed_connect_is_told_by_us_alone() -> None:
    code = (
        "import logging; from gemhooks import logs; logs.configure('json');"
        "logging.getLogger('pika.adapters').error('noise');"
        "logging.getLogger('alembic').warning('news')"
    )
    said = script(code).stderr

    assert "news" in said
    assert "noise" not in said


@pytest.mark.parametrize("shape", ["json", "console"])
@pytest.mark.parametrize("ending", ["os.close(2)", "os.dup2(os.open('/dev/full', 1), 2)"])
def test_where_nobody_can_read_the_log_the_work_goes_on(shape: str, ending: str) -> None:
    code = (
        "import os, structlog; from gemhooks import logs; logs.configure(%r);"
        "%s; structlog.get_logger().error('unheard'); print('gone on', flush=True);"
        "os._exit(0)"  # Python's own end finds that nobody can read stderr, and says so
    )

    assert script(code % (shape, ending)).stdout == "gone on\n"


def test_no_line_holds_a_secret_in_whatever_value_it_came() -> None:
    event = {
        "plain": "kept",
        "url": "amqp://someone:hunter2@broker/",
        "nested": {"password": "hunter2", "list": ["whsec_aGVsbG8gaGVsbG8gaGVsbG8=", 1]},
        "key": "AIza-not-a-real-key-0123456789",
    }

    line = logs.render_json(None, "info", event).decode()

    assert "kept" in line
    for secret in ("hunter2", "aGVsbG8", "not-a-real-key"):
        assert secret not in line


class Silent:
    def __repr__(self) -> str:
        raise ValueError("no words")


@dataclass
class Login:
    name: str
    word: str = field(repr=False)


ENDLESS: list[object] = []
ENDLESS.append(ENDLESS)
OBJECTS = [
    ValueError("GET https://x.example/?key=AIzaHunter2hunter2 failed"),
    {ValueError("whsec_Hunter2")},
    b"whsec_Hunter2",
    {"whsec_Hunter2": 1},
    [{"deep": (ValueError("whsec_Hunter2"),)}],
    Login("me", "Hunter2"),
    [Login("whsec_me", "Hunter2")],
]


@pytest.mark.parametrize("value", OBJECTS, ids=str)
def test_no_object_brings_a_secret_into_a_line(value: object) -> None:
    event = {"event": "x", "value": value}
    assert b"Hunter2" not in logs.render_json(None, "info", dict(event))
    assert "Hunter2" not in repr(logs.redact_values(None, "info", dict(event)))


@pytest.mark.parametrize("secret", ["", "whsec_Hunter2"])
@pytest.mark.parametrize("value", ["\ud800", 10**30, Silent(), [Silent()], ENDLESS, {"\ud800": 1}])
def test_whatever_a_value_is_its_line_is_an_object_with_all_others(
    value: object, secret: str
) -> None:
    line = logs.render_json(None, "info", {"event": "x", "n": 5, "value": value, "text": secret})

    assert json.loads(line) | {"value": ""} == {
        "event": "x",
        "n": 5,
        "value": "",
        "text": logs.redact(secret),
    }


@pytest.mark.parametrize(
    "text",
    [
        "GET https://x.example/y?alt=media&key=AQ.hunter2hunter2&a=b failed",
        "https://x.example/y?X-Goog-Signature=hunter2",
        "https://x.example/y?access_token=hunter2",
        "x-goog-api-key: hunter2",
        "{'x-goog-api-key': 'hunter2'}",
        "amqp://someone:p@hunter2@broker/",
    ],
)
def test_a_secret_in_a_url_or_a_header_is_hidden_in_both_renderings(text: str) -> None:
    assert "hunter2" not in logs.redact(text)
    assert b"hunter2" not in logs.render_json(None, "info", {"exception": text})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("said", "whsec_hunter2"),
        ("said", "AIzahunter2hunter2"),
        ("said", "Authorization=hunter2"),
        ("said", "authorization: hunter2"),
        ("said", "BEARER hunter2hunter2"),
        ("said", "Basic hunter2hunter2"),
        ("said", "x-goog-api-key: hunter2"),
        ("said", "a?sig=hunter2"),
        ("said", "a?token=hunter2"),
        ("said", "a?signature=hunter2"),
        ("said", "amqp://a:hunter2@b"),
        ("Password", "hunter2"),
        ("secret", "hunter2"),
        ("api_key", "hunter2"),
        ("authorization", "hunter2"),
    ],
)
def test_each_kind_of_secret_is_found_in_a_line_that_holds_no_other(name: str, value: str) -> None:
    assert b"hunter2" not in logs.render_json(None, "info", {name: value})


def test_what_others_said_does_not_drive_the_terminal() -> None:
    code = (
        "import structlog; from gemhooks import logs; logs.configure('console');"
        "structlog.get_logger().info('event_recorded', id='a\\x1b[2J\\x9b2J', reason='kept')"
    )
    said = script(code).stderr

    assert "kept" in said
    assert not {"\x1b", "\x9b"} & set(said)


def test_a_line_says_what_it_is_about_and_what_it_says_itself_counts() -> None:
    token = logs.about.set({"webhook_id": "msg_1", "queue": "q"})
    try:
        line = logs.add_about(None, "info", {"event": "mine", "queue": "other"})
    finally:
        logs.about.reset(token)

    assert line == {"event": "mine", "queue": "other", "webhook_id": "msg_1"}
    assert logs.add_about(None, "info", {"event": "mine"}) == {"event": "mine"}
