"""Runs docker-compose.yml on a real engine, as a user would, and takes it away again.

`make test-compose`: everything gets healthy, events are handled, and what waits in the queues is
there after `down` and `up`. Where an image can't be had, ARGS="--without grafana" leaves a service
out, and ARGS="--also FILE" adds a file to compose's own.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

import yaml

ROOT = Path(__file__).parents[2]
DEADLINE = 180.0  # seconds for anything to become true
HANDLED = 'sum(gemhooks_messages_total{outcome="done"})'
SENDERS, TAKERS = ("load", "simulator"), ("workers", "reconciler")


class Compose:
    """The project of this try: one of its own, so that it meets no other."""

    def __init__(self, files: Sequence[str], without: Sequence[str]) -> None:
        named = [part for file in ("docker-compose.yml", *files) for part in ("-f", file)]
        self._command = ["docker", "compose", "-p", "gemhooks-try", *named, "--profile", "demo"]
        services = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
        self._services = [each for each in services if each not in without]

    def __call__(self, *arguments: str) -> str:
        command = [*self._command, *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def up(self, *without: str) -> None:
        wanted = [each for each in self._services if each not in without]
        self("up", "--detach", "--wait", *wanted)

    def number(self, query: str) -> float:
        """What Prometheus answers to *query*, 0 while there is nothing."""
        url = f"http://127.0.0.1:9090/api/v1/query?query={quote(query)}"
        answer = self("exec", "-T", "prometheus", "wget", "-q", "-O", "-", url)
        found = json.loads(answer)["data"]["result"]
        return float(found[0]["value"][1]) if found else 0.0

    def waiting(self) -> int:
        """Messages in the consumers' queues."""
        listed = self(
            "exec", "-T", "rabbitmq", "rabbitmqctl", "-q", "list_queues", "name", "messages"
        )
        lines = [line.split() for line in listed.splitlines()]
        ours = ("gemhooks.interactions", "gemhooks.functions", "gemhooks.batches")
        return sum(int(line[1]) for line in lines if line and line[0] in ours)


def eventually(what: Callable[[], bool], why: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not what():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {DEADLINE:g} s: {why}")
        time.sleep(1)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def try_it(compose: Compose) -> None:
    compose.up()
    say("healthy: every service")
    eventually(lambda: compose.number(HANDLED) > 0, "a first event is handled")
    before = compose.number(HANDLED)
    eventually(lambda: compose.number(HANDLED) > before, "more events are handled")
    say("handled: events, as Prometheus tells")
    compose("stop", *TAKERS)
    eventually(lambda: compose.waiting() >= 50, "50 events wait")  # noqa: PLR2004 - case A2-15
    compose("stop", *SENDERS)
    waited = compose.waiting()
    compose("down")
    compose.up(*SENDERS, *TAKERS)
    if (there := compose.waiting()) < waited:
        raise SystemExit(f"of {waited} events that waited, {there} are there after down and up")
    say(f"kept: {there} waiting events, through down and up")
    compose.up("load")
    eventually(lambda: compose.waiting() == 0, "what waited is handled")
    say("handled: what waited")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without", nargs="*", default=[])
    parser.add_argument("--also", nargs="*", default=[])
    options = parser.parse_args()
    compose = Compose(options.also, options.without)
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:  # noqa: S607
        raise SystemExit("Docker does not answer: start it, or set DOCKER_HOST.")
    compose("build")
    try:
        try_it(compose)
    finally:
        compose("down", "--volumes", "--remove-orphans")


if __name__ == "__main__":
    main()
