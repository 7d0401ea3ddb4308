"""Scenario files: what they may hold, and how they are refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import urllib3
from google import genai
from standardwebhooks import Webhook as Oracle

from gemhooks.errors import Misconfigured
from gemhooks.simulator import Faults, Scenario, Simulator, read
from gemhooks.simulator.scenario import Parts
from tests.gemhooks.simulator.conftest import Listener

SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
WHOLE = """
delay: 0.01
retry_base: 0.01
disable_after: 100
webhooks:
  - {uri: "URI", subscribed_events: [interaction.completed], secret: SECRET}
scripts:
  - when: weather
    turns:
      - {kind: call, calls: [{name: get_weather, arguments: {city: Paris}}]}
      - {kind: say, text: "It is {results}."}
batches: [{when: nightly, fail_every: 10}]
videos: [{when: cat, samples: 2}]
variants: {video_fields: video_uri}
faults:
  duplicate_rate: 1
  rules: [{when: "GET /v1/batches", status: 503, first: 3}]
changes:
  - {after: 3600, faults: {lost_rate: 1}}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "scenario.yaml"
    path.write_text(text)
    return path


def test_a_scenario_holds_all_that_can_be_told(
    tmp_path: Path, connect: Any, listener: Listener
) -> None:
    text = WHOLE.replace("URI", listener.url).replace("SECRET", SECRET)
    scenario = read(write(tmp_path, text))
    with Simulator(scenario=scenario) as gemini:
        client: genai.Client = connect(gemini.url)
        client.interactions.create(model="m", input="Hi", background=True)
        for received in listener.wait(2):
            Oracle(SECRET).verify(received.body, dict(received.headers))
        waiting: Any = client.interactions.create(model="m", input="The weather?")
        assert waiting.status == "requires_action"
        assert gemini.variants.video_fields == "video_uri"


def test_an_empty_file_is_the_usual_scenario(tmp_path: Path) -> None:
    assert read(write(tmp_path, "")) == Scenario()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("- a list", "must hold names with values"),
        ("delay: soon", "delay"),
        ("fautls: {}", "fautls"),
        ("faults: {lost_rate: 2}", "faults.lost_rate"),
        ("a: [", "line 1"),
        ("webhooks: [{uri: x, subscribed_events: [batch.done]}]", "batch.done"),
        ("webhooks: [{uri: x, subscribed_events: [batch.failed], secret: no}]", "secret"),
        ("delay: !!python/object:os.system {}", "no YAML"),
    ],
)
def test_what_is_wrong_in_a_scenario_is_said(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(Misconfigured, match=complaint):
        read(write(tmp_path, text))


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"nothing\.yaml cannot be read"):
        read(tmp_path / "nothing.yaml")


def test_faults_change_with_time(listener: Listener) -> None:
    changes: Any = [{"after": 0.0, "faults": {"duplicate_rate": 1}}]
    with Simulator(changes=changes) as gemini:
        assert gemini.wait_for(lambda _: gemini.faults == Faults(duplicate_rate=1), timeout=60)


def test_a_seed_replaces_all_seeds() -> None:
    given = {"changes": [{"after": 1, "faults": {"lost_rate": 1}}]}
    scenario = Scenario.model_validate(given).with_seed(9)
    assert scenario.faults.seed == scenario.changes[0].faults.seed == 9


def test_a_simulator_takes_the_parts_of_a_scenario_by_name() -> None:
    assert set(get_type_hints(Parts)) == set(Scenario.model_fields)


def test_a_misspelt_part_is_refused() -> None:
    parts: Any = {"fautls": Faults()}
    with pytest.raises(Misconfigured, match="fautls"):
        Simulator(**parts)


def test_the_command_takes_a_scenario_and_a_seed(tmp_path: Path) -> None:
    path = write(tmp_path, "faults: {lost_rate: 0.5}")
    command = [sys.executable, "-m", "gemhooks", "simulate", "--port", "0"]
    options = ["--scenario", str(path), "--seed", "3"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[1]
            faults = json.loads(urllib3.request("GET", f"{url}/control/faults").data)
        finally:
            process.terminate()
    assert (faults["lost_rate"], faults["seed"]) == (0.5, 3)
