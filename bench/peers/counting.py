"""Counts a handler's calls and tells what they cost, once all have come."""

import json
import os
import resource
import threading
import time
from pathlib import Path


class Count:
    """`hit()` in the handler; the file OUT is written at the last of COUNT calls."""

    def __init__(self) -> None:
        self._wanted, self._out = int(os.environ["COUNT"]), Path(os.environ["OUT"])
        self._hits, self._lock = 0, threading.Lock()
        self._started = self._cpu = 0.0

    def hit(self) -> None:
        with self._lock:
            self._hits += 1
            if self._hits == 1:
                self._started, self._cpu = time.perf_counter(), _cpu()
            if self._hits == self._wanted:
                self._write()

    def _write(self) -> None:
        events = self._wanted - 1
        found = {
            "rate": events / (time.perf_counter() - self._started),
            "cpu_us": (_cpu() - self._cpu) / events * 1e6,
            "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        partial = self._out.with_suffix(".part")
        partial.write_text(json.dumps(found), "ascii")
        partial.rename(self._out)


class Delays:
    """`saw(sent)` in the handler: nanoseconds of the monotonic clock, which processes share."""

    def __init__(self) -> None:
        self._wanted, self._out = int(os.environ["COUNT"]), Path(os.environ["OUT"])
        self._seen: list[int] = []

    def saw(self, sent: int) -> None:
        self._seen.append(time.monotonic_ns() - sent)
        if len(self._seen) == self._wanted:
            partial = self._out.with_suffix(".part")
            partial.write_text(json.dumps(self._seen), "ascii")
            partial.rename(self._out)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
