"""What stands in the Dockerfile, the compose file and beside them."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from gemhooks.settings import Settings

ROOT = Path(__file__).parents[2]
OURS = ("migrate", "receiver", "workers", "reconciler", "secrets", "simulator", "load")
WATCHED = ("receiver", "workers", "reconciler", "rabbitmq", "postgres", "prometheus")
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return loaded


SERVICES: dict[str, dict[str, Any]] = compose()["services"]


def test_every_service_has_a_read_only_root_no_capability_to_gain_and_a_memory_limit() -> None:
    for name, service in SERVICES.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert service["mem_limit"], name


def test_what_must_run_is_restarted_and_what_runs_once_is_not() -> None:
    for name, service in SERVICES.items():
        assert service["restart"] == ("no" if name in ("secrets", "migrate") else "unless-stopped")


def test_ports_are_published_on_this_machine_only_and_never_the_admin_port() -> None:
    ports = [port for each in SERVICES.values() for port in each.get("ports", ())]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert not any("9090" in port for port in SERVICES["receiver"]["ports"])
    assert not any("ports" in SERVICES[each] for each in ("workers", "reconciler", "postgres"))


def test_foreign_images_are_pinned_to_a_release() -> None:
    for name, service in SERVICES.items():
        if name not in OURS:
            assert re.search(r":v?\d+\.\d+(\.\d+)?(-\w+)?$", service["image"]), name


def test_no_password_stands_in_the_file() -> None:
    text = (ROOT / "docker-compose.yml").read_text()

    assert not re.search(r"(PASSWORD|SECRET|KEY|_URL)\w*: *[^/$\s{]*://\w+:\w+@", text)
    for service in SERVICES.values():
        named = service.get("environment", {})
        assert all(
            name.endswith("FILE") or "PASSWORD" not in name for name in named if name != "LOAD_URL"
        )


def test_applications_wait_for_the_tables_and_the_queue() -> None:
    for name in ("receiver", "workers", "reconciler"):
        waits = SERVICES[name]["depends_on"]
        assert waits["migrate"]["condition"] == "service_completed_successfully"
        assert waits["rabbitmq"]["condition"] == "service_healthy"


def test_a_container_has_longer_to_end_than_the_process_in_it() -> None:
    for name in ("receiver", "workers", "reconciler"):
        grace = float(SERVICES[name]["stop_grace_period"].removesuffix("s"))
        assert grace >= Settings().grace + 10


def test_the_broker_keeps_its_data_over_a_new_container() -> None:
    broker = SERVICES["rabbitmq"]

    assert broker["hostname"] == "rabbitmq"  # its folder is named after the node
    assert "rabbitmq:/var/lib/rabbitmq" in broker["volumes"]


def test_what_runs_for_long_is_watched() -> None:
    for name in ("rabbitmq", "postgres", "prometheus", "alertmanager", "grafana"):
        assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"
    for name, service in SERVICES.items():  # `up --wait` fails for what runs for long without one
        is_disabled = service.get("healthcheck", {}).get("disable", False)
        assert is_disabled == (service["restart"] == "no"), name
    assert "HEALTHCHECK" in DOCKERFILE
    assert 'CMD ["gemhooks", "health"]' in DOCKERFILE


def test_the_image_runs_without_root_and_with_compiled_bytecode() -> None:
    last = DOCKERFILE.rsplit("FROM ", 1)[1]

    assert "USER 10001:10001" in last
    assert "tini" in last.split("ENTRYPOINT", 1)[1].split("\n", 1)[0]
    assert "compileall" in DOCKERFILE
    assert "--require-hashes" in DOCKERFILE
    assert not re.search(r"^ENV .*PYTHONPATH=", DOCKERFILE, re.MULTILINE)


def test_the_linter_of_dockerfiles_finds_nothing() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run(
        [
            hadolint,
            "--ignore",
            "DL3008",
            ROOT / "deploy" / "Dockerfile",
        ],  # Debian's own, of the day
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == ""
    assert done.returncode == 0
