"""A batch of two gigabytes: stored beside ``curl -o``, read beside Google's client, and killed."""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import figures
from bench.killing import Killed, killed
from bench.processes import ROOT, ours, running
from bench.stats import ratio
from gemhooks.heads import bare_id

ALLOWED_MIB, STORE_VS_CURL, ROWS_VS_SDK, ALLOWED_TWICE = 60.0, 0.7, 3.0, 0.05


@dataclass(frozen=True)
class Shape:
    """What a batch's result file looks like."""

    name: str
    rows: int
    row_bytes: int
    dimensions: int = 0


@dataclass
class Measured:
    """One shape's figures: seconds of each way, run in turn, and MiB above a worker at rest."""

    size: int = 0
    seconds: dict[str, list[float]] = field(default_factory=dict)
    peaks: dict[str, list[float]] = field(default_factory=dict)

    def add(self, way: str, seconds: float, peak: float = 0.0) -> None:
        self.seconds.setdefault(way, []).append(seconds)
        self.peaks.setdefault(way, []).append(peak)


@dataclass(frozen=True)
class Served:
    """A simulator with a batch."""

    url: str
    name: str

    @property
    def file(self) -> str:
        return f"{self.url}/v1/files/batch-{bare_id(self.name)}:download?alt=media"


@contextmanager
def served(shape: Shape, folder: Path) -> Iterator[Served]:
    arguments = (str(shape.rows), str(shape.row_bytes), str(shape.dimensions))
    command = ours("bench.batch_server", *arguments)
    with running(f"server-{shape.name}", command, {"PYTHONPATH": str(ROOT)}, folder) as server:
        deadline = time.monotonic() + 60
        while not (told := server.output.read_text().split()):
            server.check()
            if time.monotonic() > deadline:
                raise RuntimeError("the simulator did not start")
            time.sleep(0.05)
        yield Served(*told)


def curl(server: Served, folder: Path) -> float:
    """Seconds of ``curl -o``."""
    target = folder / "curl.jsonl"
    target.unlink(missing_ok=True)
    began = time.perf_counter()
    command = ["curl", "-sSf", "-H", "x-goog-api-key: any", "-o", str(target), server.file]
    subprocess.run(command, check=True)
    return time.perf_counter() - began


def fetched(way: str, server: Served, folder: Path) -> dict[str, Any]:
    """What one way tells of itself; its files are removed again."""
    place = folder / "results"
    command = ours("bench.batch_client", way, server.url, server.name, str(place))
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    shutil.rmtree(place, ignore_errors=True)
    return dict(json.loads(done.stdout))


def measure(shape: Shape, server: Served, folder: Path, repeat: int) -> Measured:
    """Every way in turn, *repeat* times: what ran side by side is compared."""
    measured = Measured()
    for _ in range(repeat):
        for way in ("curl", "store", "sdk", "rows"):
            if way == "curl":
                measured.add(way, curl(server, folder))
                measured.size = (folder / "curl.jsonl").stat().st_size
                continue
            told = fetched(way, server, folder)
            if way != "store" and told["rows"] != shape.rows:
                raise RuntimeError(f"{way} read {told['rows']} of {shape.rows} rows")
            measured.add(way, told["seconds"], told["peak"] - told["at_rest"])
    return measured


def report(found: dict[str, Measured], ends: dict[str, Killed]) -> dict[str, Any]:
    """What goes to the file: per shape, and the worst of each figure."""
    shapes: dict[str, Any] = {}
    for name, measured in found.items():
        seconds = measured.seconds
        shapes[name] = {
            "bytes": measured.size,
            "seconds": {way: median(each) for way, each in seconds.items()},
            "peak_mib_above_idle": max(measured.peaks["store"] + measured.peaks["rows"]),
            "ratios": {
                "store-vs-curl": ratio(seconds["curl"], seconds["store"]).middle,
                "rows-vs-sdk": ratio(seconds["sdk"], seconds["rows"]).middle,
            },
            "killed": asdict(ends[name]),
        }
    return {
        "peak_mib_above_idle": max(each["peak_mib_above_idle"] for each in shapes.values()),
        "ratios": {
            name: min(each["ratios"][name] for each in shapes.values())
            for name in ("store-vs-curl", "rows-vs-sdk")
        },
        "shapes": shapes,
    }


def show(told: dict[str, Any]) -> None:
    table = Table("", *told["shapes"], "wanted")
    each = list(told["shapes"].values())
    table.add_row("size, MB", *(f"{one['bytes'] / 1e6:.0f}" for one in each))
    for way in ("curl", "store", "sdk", "rows"):
        rates = (one["bytes"] / 1e6 / one["seconds"][way] for one in each)
        table.add_row(f"{way}, MB/s", *(f"{rate:.0f}" for rate in rates))
    for name, wanted in (("store-vs-curl", STORE_VS_CURL), ("rows-vs-sdk", ROWS_VS_SDK)):
        table.add_row(name, *(f"{one['ratios'][name]:.2f}" for one in each), f"at least {wanted}")
    peaks = (f"{one['peak_mib_above_idle']:.1f}" for one in each)
    table.add_row("peak above idle, MiB", *peaks, f"at most {ALLOWED_MIB:.0f}")
    ends = [one["killed"] for one in each]
    table.add_row("kills of a worker", *(str(end["kills"]) for end in ends), "")
    table.add_row("replays of a dead letter", *(str(end["replays"]) for end in ends), "")
    table.add_row("byte-identical", *("yes" if end["identical"] else "NO" for end in ends), "yes")
    twice = (f"{end['twice']:.2%}" for end in ends)
    table.add_row("received twice", *twice, f"at most {ALLOWED_TWICE:.0%}")
    Console().print(table)


def options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="of text")
    parser.add_argument("--row-bytes", type=int, default=20_000)
    parser.add_argument("--vectors", type=int, default=50_000, help="rows with an embedding")
    parser.add_argument("--dimensions", type=int, default=3072, help="numbers of an embedding")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to be measured")
    return parser.parse_args(arguments)


def run(wanted: argparse.Namespace) -> dict[str, Any]:
    """Measure both shapes; the report."""
    shapes = (
        Shape("text", wanted.rows, wanted.row_bytes),
        Shape("vectors", wanted.vectors, 14 * wanted.dimensions + 500, wanted.dimensions),
    )
    found, ends = {}, {}
    with tempfile.TemporaryDirectory(dir=wanted.folder, prefix="gemhooks-bench-") as name:
        folder = Path(name)
        for shape in shapes:
            with served(shape, folder) as server:
                found[shape.name] = measure(shape, server, folder, wanted.repeat)
                ends[shape.name] = killed(
                    server.url, server.name, folder / "curl.jsonl", kills=wanted.kills
                )
    return report(found, ends)


def main() -> None:
    told = run(options(sys.argv[1:]))
    show(told)
    figures.keep("batch", told, Console())


if __name__ == "__main__":
    main()
