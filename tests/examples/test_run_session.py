"""The example client as a process, against an HTTP server that speaks the official types."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from google.cloud import ces_v1

from tests.integration.processes import ROOT, clean_env
from tests.services.website import Website

SESSION = "projects/p/locations/us/apps/a/sessions/s"
TOOL = "projects/p/locations/us/apps/a/tools/t1"


@dataclass
class Agent:
    """Asks for two refunds at once, then says what it was told; may break in between."""

    breaks: int = 0  # how many answers to function results are lost
    requests: list[Any] = field(default_factory=list)  # RunSessionRequest, as it was parsed
    paths: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    def answer(self, body: bytes) -> dict[str, Any]:
        request = ces_v1.RunSessionRequest.from_json(body)  # refuses what the API doesn't know
        self.requests.append(request)
        [said] = request.inputs
        if "tool_responses" not in said:
            return {"toolCalls": {"toolCalls": [refund("c1", "o1", 100), refund("c2", "o2", -1.5)]}}
        if self.breaks:
            self.breaks -= 1
            raise ConnectionError
        told = said.tool_responses.tool_responses
        return {"text": "; ".join(f"{each.id} {sorted(each.response)}" for each in told)}


def refund(key: str, order: str, cents: float) -> dict[str, Any]:
    args = {"order": order, "cents": cents}
    return {"id": key, "tool": TOOL, "displayName": "refund", "args": args}


@contextmanager
def served(agent: Agent) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            agent.paths.append(self.path)
            agent.tokens.append(self.headers["authorization"])
            try:
                output = agent.answer(body)
            except ConnectionError:
                self.close_connection = True
                return
            # As Google's own library writes it, floats for integers included.
            response = ces_v1.RunSessionResponse.from_json(json.dumps({"outputs": [output]}))
            text = ces_v1.RunSessionResponse.to_json(
                response, always_print_fields_with_no_presence=False
            ).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run_example(folder: Path, base_url: str) -> subprocess.CompletedProcess[str]:
    ledger = f"sqlite:///{folder}/ledger.db"
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / "run_session.py"), SESSION, "Refund them"],
        cwd=folder,
        env=clean_env(GEMHOOKS_DATABASE_URL=ledger, CES_BASE_URL=base_url, CES_TOKEN="secret"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def agent() -> Agent:
    return Agent()


def test_the_agents_calls_are_answered_together_and_it_has_the_last_word(
    agent: Agent, tmp_path: Path
) -> None:
    with served(agent) as url:
        run = run_example(tmp_path, url)

    assert run.returncode == 0, run.stderr
    assert run.stdout == "c1 ['output']; c2 ['error']\n"
    assert (tmp_path / "refunds.txt").read_text() == "o1 100\n"
    assert agent.paths == [f"/v1/{SESSION}:runSession"] * 2
    assert agent.tokens == ["Bearer secret"] * 2
    question, results = agent.requests
    assert question.config.session == SESSION
    assert question.inputs[0].text == "Refund them"
    told = json.loads(ces_v1.ToolResponses.to_json(results.inputs[0].tool_responses))
    done, refused = told["toolResponses"]
    assert done["tool"] == refused["tool"] == TOOL
    assert done["response"] == {"output": {"order": "o1", "refunded": 100}}
    assert "Bad arguments: cents" in refused["response"]["error"]


def test_a_session_that_is_driven_again_refunds_nothing_twice(agent: Agent, tmp_path: Path) -> None:
    agent.breaks = 1
    with served(agent) as url:
        runs = [run_example(tmp_path, url) for _ in range(2)]

    assert [each.returncode for each in runs] == [1, 0]
    assert runs[-1].stdout == "c1 ['output']; c2 ['error']\n"
    assert (tmp_path / "refunds.txt").read_text() == "o1 100\n"
    assert "no call that was made is made again" in runs[0].stderr
    assert "Traceback" not in runs[0].stderr
    assert "secret" not in runs[0].stderr


def test_the_token_goes_nowhere_else(agent: Agent, tmp_path: Path) -> None:
    with served(agent) as url, Website() as site:
        site.status, site.location = 302, url
        run = run_example(tmp_path, site.url)

    assert (run.returncode, agent.tokens) == (1, [])
    assert "302" in run.stderr
    assert "Traceback" not in run.stderr
