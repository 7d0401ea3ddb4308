"""A consumer in another language, beside a broker of ours: started, told something, listened to."""

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from gemhooks import topology
from gemhooks.messages import Message
from gemhooks.queues.connect import connect

PATIENCE = 60.0  # seconds


@contextmanager
def started(
    command: list[str], url: str, queue: str, env: Mapping[str, str], cwd: Path
) -> Iterator["subprocess.Popen[str]"]:
    """*command*, from when it consumes *queue* of the broker at *url*."""
    with closing(connect(url, publish_timeout=30)) as broker:
        broker.declare([])  # the exchanges, as the receiver declares them
    child = subprocess.Popen(
        command, cwd=cwd, env={**env, "GEMHOOKS_BROKER_URL": url}, stdout=subprocess.PIPE, text=True
    )
    with child:
        try:
            wait_until_consumed(url, queue, child)
            yield child
        finally:
            child.terminate()


def wait_until_consumed(url: str, queue: str, child: "subprocess.Popen[str]") -> None:
    from gemhooks.queues.inspecting import inspect  # noqa: PLC0415 - pika

    deadline = time.monotonic() + PATIENCE
    while True:
        state = inspect(url, [queue]).queues.get(queue)
        if state is not None and state.consumers:
            return
        assert child.poll() is None, "it ended"
        assert time.monotonic() < deadline, "it does not consume"
        time.sleep(0.1)


def publish(url: str, *messages: Message) -> None:
    with closing(connect(url, publish_timeout=30)) as broker:
        broker.declare([])
        for each in messages:
            broker.publisher.publish(each, exchange=topology.RESULTS).result(PATIENCE)


def line(child: "subprocess.Popen[str]") -> str:
    assert child.stdout is not None
    return child.stdout.readline()
