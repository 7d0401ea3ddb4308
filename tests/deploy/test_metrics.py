"""Every name that a dashboard or an alert asks for exists, and every name is documented."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from deploy import reference
from deploy.grafana import generate

ROOT = Path(__file__).parents[2]
BOARDS = sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
RABBITMQ = {  # of its Prometheus plugin, the families that prometheus.yml asks for
    "rabbitmq_detailed_queue_messages",
    "rabbitmq_detailed_queue_messages_ready",
    "rabbitmq_detailed_queue_consumers",
}


def rules() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    return loaded


def panels(board: Path) -> Iterator[dict[str, Any]]:
    for panel in orjson.loads(board.read_bytes())["panels"]:
        yield from panel.get("panels") or ()
        if panel["type"] != "row":
            yield panel


def asked() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    for board in BOARDS:
        yield from (each["expr"] for panel in panels(board) for each in panel["targets"])


def test_every_name_in_dashboards_and_alerts_exists() -> None:
    known = reference.names() | RABBITMQ | {"up"}
    used = {name for text in asked() for name in re.findall(r"\b(?:gemhooks|rabbitmq)_\w+", text)}

    assert used - known == set()


def test_no_counter_is_shown_without_a_rate() -> None:
    for text in asked():
        for name in re.findall(r"\b\w+_total\b", text):
            assert re.search(rf"(rate|increase)\({name}", text), text


def test_the_reference_of_metrics_is_up_to_date() -> None:
    assert reference.PAGE.read_text() == reference.page(), "make generated"


def test_the_dashboards_are_up_to_date() -> None:
    assert sorted(generate.BOARDS) == [board.stem for board in BOARDS]
    for board in BOARDS:
        made = generate.text_of(generate.BOARDS[board.stem]())
        assert board.read_text() == made, "make generated"


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.stem)
def test_every_panel_says_what_it_shows_and_in_which_unit(board: Path) -> None:
    known = {each["name"] for each in orjson.loads(board.read_bytes())["templating"]["list"]}

    for panel in panels(board):
        assert panel["title"]
        assert panel["description"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        for each in panel["targets"]:
            used = set(re.findall(r"\$\{?(?!__)(\w+)", each["expr"]))
            assert used <= known, panel["title"]


def test_every_alert_has_a_page_in_the_runbook_and_every_page_an_alert() -> None:
    book = (ROOT / "docs" / "runbook.md").read_text()
    pages = re.findall(r"^## (\w+)$", book, re.MULTILINE)

    assert sorted(pages) == sorted(rule["alert"] for rule in rules())
    for rule in rules():
        assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"


def promtool(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(folder / "promtool"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_alert_fires_and_is_silent_when_it_should(prometheus: Path) -> None:
    tests = ROOT / "deploy" / "prometheus" / "alerts_test.yml"
    done = promtool(prometheus, "test", "rules", tests)
    tried = yaml.safe_load(tests.read_text())["tests"]
    cases = {
        (case["alertname"], bool(case["exp_alerts"]))
        for each in tried
        for case in each["alert_rule_test"]
    }

    assert done.returncode == 0, done.stderr
    assert cases == {(rule["alert"], fires) for rule in rules() for fires in (True, False)}


def test_prometheus_and_alertmanager_take_their_files(prometheus: Path, alertmanager: Path) -> None:
    config = ROOT / "deploy" / "prometheus" / "prometheus.yml"
    checked = promtool(prometheus, "check", "config", config)
    file = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"
    check = [str(alertmanager / "amtool"), "check-config", str(file)]
    looked = subprocess.run(check, capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stderr
    assert looked.returncode == 0, looked.stderr
