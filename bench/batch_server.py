"""A simulator with one large batch: prints its address and the batch's name, then serves."""

import json
import os
import signal
import sys
import threading
import time
import urllib.request
from typing import Any

from gemhooks.simulator import BatchPlan, Simulator

HEADERS = {"x-goog-api-key": "any", "content-type": "application/json"}


def ask(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url, data, HEADERS)  # noqa: S310 - our own simulator's
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - as above
        return dict(json.load(answer))


def start(simulator: Simulator) -> str:
    """Start the batch and wait for its end; its name."""
    body = {"batch": {"displayName": "large", "inputConfig": {"fileName": "files/none"}}}
    name = ask(f"{simulator.url}/v1/models/m:batchGenerateContent", body)["name"]
    while not ask(f"{simulator.url}/v1/{name}").get("done"):
        time.sleep(0.05)
    return str(name)


def main() -> None:
    rows, row_bytes, dimensions = map(int, sys.argv[1:])
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    plan = BatchPlan(rows=rows, row_bytes=row_bytes, dimensions=dimensions)
    with Simulator(delay=0.0, batches=[plan]) as simulator:
        os.write(1, f"{simulator.url} {start(simulator)}\n".encode())
        stop.wait()


if __name__ == "__main__":
    main()
