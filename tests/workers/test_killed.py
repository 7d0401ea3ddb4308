"""A worker that is killed in the middle of a large download: `make bench-batch` in small."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import batch
from bench.batch import Measured, Served, Shape
from bench.killing import Killed, killed
from gemhooks.gemini.rest import CHUNK
from workers.downloading import OVERLAP

SHAPE = Shape("text", rows=1500, row_bytes=20_000)
SIZE = SHAPE.rows * SHAPE.row_bytes
KILLS = 3


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    folder = tmp_path_factory.mktemp("killed")
    with batch.served(SHAPE, folder) as server:
        yield server, folder
    shutil.rmtree(folder)


def test_a_killed_download_ends_with_the_very_bytes_and_fetches_little_twice(
    served: tuple[Served, Path],
) -> None:
    server, folder = served
    batch.curl(server, folder)

    ended = killed(server.url, server.name, folder / "curl.jsonl", kills=KILLS)

    assert ended.identical
    assert ended.twice * SIZE <= KILLS * (OVERLAP + CHUNK)
    assert not ended.replays


def test_memory_does_not_grow_with_the_file(served: tuple[Served, Path]) -> None:
    server, folder = served

    told = batch.fetched("rows", server, folder)

    assert told["rows"] == SHAPE.rows
    assert told["peak"] - told["at_rest"] < batch.ALLOWED_MIB


def test_the_report_has_the_worst_of_each_figure() -> None:
    slow, fast = Measured(size=10), Measured(size=10)
    for measured, seconds in ((slow, 2.0), (fast, 1.0)):
        for way, took in (("curl", 1.0), ("store", seconds), ("sdk", 8.0), ("rows", 2 * seconds)):
            measured.add(way, took, peak=seconds)
    ended = Killed(3, 0, identical=True, twice=0.01)

    told = batch.report({"a": slow, "b": fast}, {"a": ended, "b": ended})

    assert told["ratios"] == {"store-vs-curl": 0.5, "rows-vs-sdk": 2.0}
    assert told["peak_mib_above_idle"] == 2.0
