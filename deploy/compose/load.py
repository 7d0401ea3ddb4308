"""A steady load on the simulated Gemini, so that the dashboards have something to show."""

import itertools
import json
import os
import sys
import time
import urllib.request
from collections.abc import Mapping
from typing import Any

WORDS = ("hello", "hello again", "the weather in Vienna, please", "break", "tell me of the sea")
BATCH_EVERY = 20  # so many interactions, a batch of two rows comes along


def main(base_url: str, rate: float) -> None:
    """Start *rate* interactions a second until the process is ended."""
    started = time.monotonic()
    for number in itertools.count():
        time.sleep(max(0.0, started + number / rate - time.monotonic()))
        try:
            ask(base_url, WORDS[number % len(WORDS)])
            if number % BATCH_EVERY == 0:
                ask_many(base_url, WORDS[:2])
        except OSError as error:  # urllib's own errors too
            sys.stderr.write(f"not started: {error}\n")
            time.sleep(1)


def ask(base_url: str, question: str) -> None:
    """Start an interaction that ends in the background, with a webhook.

    It is marked as ours, as gemhooks.jobs does it, so that its function calls are answered.
    """
    marked = {"user_metadata": {"gemhooks": "started"}}
    body = {"model": "gemini-3-flash", "input": question, "background": True}
    post(f"{base_url}/v1beta/interactions", {**body, "webhook_config": marked})


def ask_many(base_url: str, questions: tuple[str, ...]) -> None:
    """Start a batch of them."""
    rows = [{"request": {"contents": [{"parts": [{"text": each}]}]}} for each in questions]
    batch = {"displayName": "demo", "inputConfig": {"requests": {"requests": rows}}}
    post(f"{base_url}/v1beta/models/gemini-3-flash:batchGenerateContent", {"batch": batch})


def post(url: str, body: Mapping[str, Any]) -> None:
    request = urllib.request.Request(  # noqa: S310 - the simulator, over http
        url,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "x-goog-api-key": "simulated"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        answer.read()


if __name__ == "__main__":
    main(os.environ["LOAD_URL"], float(os.environ["LOAD_RATE"]))
