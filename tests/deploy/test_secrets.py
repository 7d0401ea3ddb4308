"""The secrets that `docker compose up` makes for itself."""

import subprocess
import sys
from pathlib import Path

import pytest

from gemhooks import signing, simulator
from gemhooks.settings import Settings, check_names, known_names

ROOT = Path(__file__).parents[2]


def make(folder: Path) -> None:
    script = ROOT / "deploy" / "compose" / "make_secrets.py"
    subprocess.run([sys.executable, script, folder], check=True)


def texts(folder: Path) -> dict[str, str]:
    files = (each for each in folder.rglob("*") if each.is_file())
    return {str(each.relative_to(folder)): each.read_text() for each in files}


def test_they_are_made_once_and_kept(tmp_path: Path) -> None:
    make(tmp_path)
    first = texts(tmp_path)
    make(tmp_path)

    assert texts(tmp_path) == first
    assert len(set(first.values())) == len(first)


def test_a_secret_of_ones_own_stays(tmp_path: Path) -> None:
    (tmp_path / "broker-password").write_text("my-own")
    make(tmp_path)

    assert ":my-own@" in (tmp_path / "broker-url").read_text()
    assert "default_pass = my-own" in (tmp_path / "rabbitmq" / "10-user.conf").read_text()


def test_the_simulator_signs_with_what_the_receiver_knows(tmp_path: Path) -> None:
    make(tmp_path)
    scenario = simulator.read(tmp_path / "simulator" / "scenario.yaml")
    known = (tmp_path / "webhook" / "simulated").read_text()

    assert signing.decode_secret(known)
    assert known in (tmp_path / "simulator" / "scenario.yaml").read_text()
    assert [str(each.uri) for each in scenario.webhooks] == ["http://receiver:8080/webhooks/gemini"]


@pytest.mark.parametrize("name", ["simulator", "gemini"])
def test_each_choice_of_a_gemini_is_a_file_of_settings(name: str) -> None:
    lines = (ROOT / "deploy" / "compose" / f"{name}.env").read_text().splitlines()
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]

    check_names({name: value for name, _, value in pairs}, known_names(Settings))
