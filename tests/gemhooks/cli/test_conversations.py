"""``gemhooks interactions show ID --as messages`` as a person or a script uses it."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3
from typer.testing import CliRunner, Result

from gemhooks.cli import app
from gemhooks.cli.conversations import show_messages
from gemhooks.cli.tables import Format
from gemhooks.conversations import Message, to_messages
from gemhooks.simulator import Say, Script, Simulator


@pytest.fixture
def gemini() -> Iterator[Simulator]:
    with Simulator(
        delay=0.0, scripts=[Script(when="", turns=(Say(text="\x1b[31m7 [bold]"),))]
    ) as it:
        yield it


@pytest.fixture
def interaction_id(gemini: Simulator) -> str:
    body = {"model": "gemini-3.8-flash", "input": "Weather in Bern?", "background": True}
    with urllib3.PoolManager() as http:
        headers = {"x-goog-api-key": "k"}
        answer = http.request("POST", f"{gemini.url}/v1/interactions", json=body, headers=headers)
    return str(answer.json()["id"])


def shown(gemini: Simulator, *arguments: str) -> Result:
    env = {"GEMHOOKS_GEMINI_BASE_URL": gemini.url, "GEMINI_API_KEY": "k", "COLUMNS": "200"}
    command = ["interactions", "show", *arguments, "--as", "messages"]
    ended = CliRunner().invoke(app, command, env=env)
    assert ended.exit_code == 0, ended.output
    return ended


def test_a_script_gets_the_format_itself(gemini: Simulator, interaction_id: str) -> None:
    wire = json.loads(shown(gemini, interaction_id, "--format", "json").stdout)

    messages = [Message.from_wire(each) for each in wire]
    assert [each.role for each in messages][:1] == ["user"]
    assert messages[0].chunks[0].text == "Weather in Bern?"


def test_a_person_sees_what_was_said_and_nothing_that_drives_the_terminal(
    gemini: Simulator, interaction_id: str
) -> None:
    said = shown(gemini, interaction_id).stdout

    assert "Weather in Bern?" in said
    assert "\x1b" not in said


def rows(capsys: pytest.CaptureFixture[str], *steps: dict[str, Any]) -> str:
    show_messages(to_messages({"steps": list(steps)}), Format.TABLE)
    return capsys.readouterr().out


def test_every_chunk_is_a_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    picture = base64.b64encode(b"x" * 1234).decode()

    table = rows(
        capsys,
        {"type": "function_call", "id": "c1", "name": "f", "arguments": {"n": 1}},
        {"type": "function_result", "call_id": "c1", "name": "f", "result": "y" * 9999},
        {
            "type": "model_output",
            "content": [
                {"type": "text", "text": "[red]\x1b[2JHi"},
                {"type": "image", "mime_type": "image/png", "data": picture},
            ],
        },
        {"type": "thought"},
    )

    for piece in ("f({'n': 1})", "tool response", "[red]", "image/png, 1,234 bytes", "thought"):
        assert piece in table
    assert "5 in all" in table
    assert "\x1b" not in table
    assert len(table) < 5000
