"""One way to fetch a batch's results, in a process of its own: ``store``, ``rows`` or ``sdk``.

Prints JSON: seconds, rows, MiB resident at rest and at the peak. ``rows`` is the built-in worker:
it stores the file, reads each row and writes the summary.
"""

import json
import mmap
import os
import struct
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from gemhooks import events, heads, logs
from gemhooks.gemini import Gemini
from gemhooks.messages import Message
from gemhooks.metrics import ResultMetrics
from gemhooks.results import ResultsStore
from workers.batches import BatchFetcher
from workers.downloading import Downloading, NoSink


class Counter:
    """Bytes that were received, in a file."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._count = mmap.mmap(file.fileno(), 8)

    def of(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            (before,) = struct.unpack("<q", self._count[:8])
            self._count[:8] = struct.pack("<q", before + len(chunk))
            yield chunk


class Nobody:
    """A publisher, an index and a memory of jobs that have nothing to do."""

    def publish(self, message: Message, *, exchange: str = "") -> Future[None]:
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def record(self, *_: Any, **_more: Any) -> None:
        """Forget it."""


def store(gemini: Gemini, folder: Path, name: str) -> int:
    results, source = ResultsStore(str(folder)), f"files/batch-{heads.bare_id(name)}"
    with results.partial("batches", "plain", "rows.jsonl") as partial:
        Downloading(gemini.files, source, partial, NoSink()).run()
        results.put(partial, "batches", "plain", "rows.jsonl")
    return 0


def rows(gemini: Gemini, folder: Path, name: str) -> int:
    results, nobody = ResultsStore(str(folder)), Nobody()
    metrics = ResultMetrics(CollectorRegistry())
    fetcher = BatchFetcher(
        gemini.operations, gemini.files, results, nobody, nobody, nobody, metrics
    )
    event = events.parse(json.dumps({"type": "batch.succeeded", "data": {"id": name}}).encode())
    assert isinstance(event, events.BatchEvent)  # noqa: S101 - for the type checker
    fetcher.fetch(event)
    summary = results.read("batches", heads.bare_id(name), "summary.json") or b"{}"
    return int(json.loads(summary)["rows"])


def sdk(url: str, name: str) -> int:
    """As the guide does it: everything in memory, then line by line."""
    from google import genai  # noqa: PLC0415 - only where it is measured

    client = genai.Client(api_key="any", http_options={"base_url": url})
    content = client.files.download(file=f"files/batch-{heads.bare_id(name)}")
    return sum(1 for line in content.decode().splitlines() if json.loads(line))


def mib(name: str) -> float:
    """VmRSS or VmHWM of this process."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if name in x)
    return int(line.split()[1]) / 1024


def main() -> None:
    way, url, name, folder = sys.argv[1:]
    logs.configure("json", "warning")
    gemini = Gemini("any", base_url=url, timeout=30.0)
    gemini.operations.get(name)  # a worker at rest has spoken to Gemini before
    if way == "sdk":
        import google.genai  # noqa: F401, PLC0415 - its import is not what is measured
    at_rest, began = mib("VmRSS"), time.perf_counter()
    if way == "sdk":
        count = sdk(url, name)
    else:
        count = {"store": store, "rows": rows}[way](gemini, Path(folder), name)
    seconds = time.perf_counter() - began
    told = {"seconds": seconds, "rows": count, "at_rest": at_rest, "peak": mib("VmHWM")}
    os.write(1, json.dumps(told).encode())


if __name__ == "__main__":
    main()
