"""All of docker-compose.yml that is a process of ours, and Prometheus, run on this machine."""

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.integration.processes import ROOT, clean_env, is_ready, process
from tests.services.home import Home
from tests.services.install import ensure
from tests.services.ports import free_port
from tests.services.rabbitmq import RabbitNode
from tests.services.waiting import eventually

DEPLOY = ROOT / "deploy"
AUDIENCE = "stack"
TOKEN = "a-long-enough-token-of-the-path"


class ShippedNode(RabbitNode):
    """A node with the file and the plugins that are shipped, on ports of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.prometheus_port = free_port()

    def _configuration(self) -> str:
        shipped = (DEPLOY / "rabbitmq" / "rabbitmq.conf").read_text()
        faster = shipped.replace("collect_statistics_interval = 5000", "")
        port = f"prometheus.tcp.port = {self.prometheus_port}\nprometheus.tcp.ip = 127.0.0.1\n"
        return f"{faster}\n{port}{super()._configuration()}".replace("log.console = true", "", 1)

    def _move_in(self) -> Home:
        home = super()._move_in()
        home.write("plugins", (DEPLOY / "rabbitmq" / "enabled_plugins").read_text())
        return home


@dataclass
class Stack:
    """Where everything answers."""

    folder: Path
    amqp_url: str
    database_url: str
    rabbitmq: int  # port of its metrics
    receiver: int = field(default_factory=free_port)
    simulator: int = field(default_factory=free_port)
    prometheus: int = field(default_factory=free_port)
    admin: dict[str, int] = field(
        default_factory=lambda: {
            name: free_port() for name in ("receiver", "workers", "reconciler", "ensure")
        }
    )

    @property
    def gemini(self) -> str:
        return f"http://127.0.0.1:{self.simulator}"

    def env(self, role: str) -> dict[str, str]:
        return {
            "GEMHOOKS_BROKER_URL": self.amqp_url,
            "GEMHOOKS_DATABASE_URL": self.database_url,
            "GEMHOOKS_RESULTS_URL": str(self.folder / "results"),
            "GEMHOOKS_GEMINI_BASE_URL": self.gemini,
            "GEMHOOKS_PORT": str(self.receiver),
            "GEMHOOKS_ADMIN_PORT": str(self.admin[role]),
            "GEMHOOKS_RECEIVERS": f"http://127.0.0.1:{self.admin['receiver']}",
            "GEMHOOKS_RECONCILE_EVERY": "1s",
            "GEMHOOKS_GRACE": "1s",  # what runs at the end of the tests is nobody's
            "GEMHOOKS_FUNCTIONS": "examples.tools:functions",
            "GEMHOOKS_SCHEMES": "v1 jwt",
            "GEMHOOKS_PATH_TOKENS": TOKEN,
            "GEMHOOKS_JWT_AUDIENCE": AUDIENCE,
            "GEMHOOKS_JWKS_URL": f"{self.gemini}/.well-known/jwks.json",
            "GEMHOOKS_LOG_FORMAT": "json",
            "GEMINI_API_KEY": "simulated",
            "GEMINI_WEBHOOK_SECRET_FILE": str(self.folder / "secrets" / "webhook"),
        }

    def query(self, expression: str, *, seconds: float = 0.0) -> list[dict[str, Any]]:
        """What Prometheus answers, now or over the last *seconds*; its complaint fails the test."""
        now = time.time()
        asked = {"query": expression}
        if seconds:
            asked |= {"start": str(now - seconds), "end": str(now), "step": "1"}
        kind = "query_range" if seconds else "query"
        return list(self.api(f"{kind}?{urllib.parse.urlencode(asked)}")["result"])

    def api(self, path: str) -> Any:
        url = f"http://127.0.0.1:{self.prometheus}/api/v1/{path}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(error.read().decode()) from None

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


@contextmanager
def running(folder: Path, node: ShippedNode, amqp_url: str, database_url: str) -> Iterator[Stack]:
    """Simulator, receiver, workers, reconciler, ensure, load and Prometheus, ended together."""
    stack = Stack(folder, amqp_url, database_url, node.prometheus_port)
    _write_secrets(stack)
    scenario = str(folder / "secrets" / "simulator" / "scenario.yaml")
    with ExitStack() as all_of_it:

        def start(name: str, role: str, *command: str) -> None:
            log = stack.log(name)
            all_of_it.enter_context(process(*command, log=log, env=stack.env(role)))

        port = str(stack.simulator)
        start("simulator", "ensure", "gemhooks", "simulate", "--port", port, "--scenario", scenario)
        eventually(lambda: _answers(f"{stack.gemini}/livez"))
        for role in ("receiver", "workers"):
            start(role, role, role)
        eventually(lambda: all(is_ready(stack.admin[each])() for each in ("receiver", "workers")))
        _declare_and_rotate(stack, start)
        # Last: it looks at the webhooks when it starts, then once a minute.
        start("reconciler", "reconciler", "workers", "reconcile")
        eventually(is_ready(stack.admin["reconciler"]))
        all_of_it.enter_context(_load(stack))
        all_of_it.enter_context(_prometheus(stack))
        yield stack


def _write_secrets(stack: Stack) -> None:
    """Those of `docker compose up`, with this stack's addresses in the simulator's scenario."""
    folder = stack.folder / "secrets"
    script = DEPLOY / "compose" / "make_secrets.py"
    subprocess.run([sys.executable, script, folder], check=True)
    scenario = folder / "simulator" / "scenario.yaml"
    text = scenario.read_text().replace("http://simulator:8787", stack.gemini)
    text = text.replace("receiver:8080", f"127.0.0.1:{stack.receiver}")
    scenario.chmod(0o600)
    scenario.write_text(text.replace("delay: 0.5", "delay: 0.1"))


def _declare_and_rotate(stack: Stack, start: Any) -> None:
    """A webhook that differs from its declaration, and an old secret that ends tomorrow."""
    uri = f"http://127.0.0.1:{stack.receiver}/webhooks/gemini"
    command = ("gemhooks", "webhook", "ensure", "--check", "--every", "1")
    admin = ("--admin-port", str(stack.admin["ensure"]))
    start("ensure", "ensure", *command, "--uri", uri, "--event", "batch.failed", *admin)
    headers = {"x-goog-api-key": "simulated"}
    request = urllib.request.Request(  # noqa: S310 - loopback
        f"{stack.gemini}/v1/webhooks", headers=headers
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        (webhook,) = json.load(answer)["webhooks"]
    name = str(webhook.get("id") or webhook["name"]).removeprefix("webhooks/")
    place = str(stack.folder / "secrets" / "webhook")
    rotate = ("webhook", "rotate", name, "--save-to", place, "--timeout", "60")
    done = subprocess.run(
        [sys.executable, "-m", "gemhooks", *rotate],
        env=clean_env(**stack.env("ensure")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def _load(stack: Stack) -> Iterator[None]:
    env = {"LOAD_URL": stack.gemini, "LOAD_RATE": "8"}
    with process("deploy.compose.load", log=stack.log("load"), env=env):
        yield


@contextmanager
def _prometheus(stack: Stack) -> Iterator[None]:
    """Debian's, with the shipped file; only targets, paths and intervals are this machine's."""
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    config["global"] |= dict.fromkeys(("scrape_interval", "evaluation_interval"), "1s")
    config["global"]["scrape_timeout"] = "1s"
    config["rule_files"] = [str(DEPLOY / "prometheus" / "alerts.yml")]
    del config["alerting"]
    ports = {**stack.admin, "rabbitmq": stack.rabbitmq, "rabbitmq-queues": stack.rabbitmq}
    for job in config["scrape_configs"]:
        job.pop("dns_sd_configs", None)
        port = ports.get(job["job_name"], stack.prometheus)
        job["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
    ensured = [{"targets": [f"127.0.0.1:{stack.admin['ensure']}"]}]
    config["scrape_configs"].append({"job_name": "ensure", "static_configs": ensured})
    file = stack.folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    command = [
        str(ensure("prometheus") / "prometheus"),
        f"--config.file={file}",
        f"--storage.tsdb.path={stack.folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{stack.prometheus}",
    ]
    with stack.log("prometheus").open("wb") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        eventually(lambda: _answers(f"http://127.0.0.1:{stack.prometheus}/-/ready"))
        yield
    finally:
        child.terminate()
        child.wait(30)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - loopback
            return bool(answer.status == 200)
    except OSError:
        return False


def filled(expression: str, *, interval: str = "10s") -> str:
    """A panel's query as Grafana would send it, with every variable at `All`."""
    expression = expression.replace("$__rate_interval", interval)
    return re.sub(r"\$\{?queue\}?", ".+", expression)
