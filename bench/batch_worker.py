"""``python -m workers``, with what it receives of files counted where a kill cannot reach."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench.batch_client import Counter
from gemhooks import entry
from gemhooks.gemini.files import Download, Files
from workers.__main__ import main

COUNTER = "BENCH_COUNTER"  # the variable that names the file


def count_in(counter: Counter) -> None:
    """From here on all that this process downloads is counted."""
    plain = Files.open

    @contextmanager
    def counted(self: Files, source: str, *, start: int = 0) -> Iterator[Download]:
        with plain(self, source, start=start) as download:
            yield replace(download, chunks=counter.of(download.chunks))

    Files.open = counted  # type: ignore[method-assign]  # the bench's process, and its only change


if __name__ == "__main__":
    count_in(Counter(Path(os.environ[COUNTER])))
    entry.run(lambda: main([]))
