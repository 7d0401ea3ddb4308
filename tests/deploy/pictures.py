"""Draws a dashboard from what Prometheus answers: no package carries a Grafana server."""

import re
import time
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import orjson

from tests.deploy.stack import Stack, filled
from tests.deploy.test_metrics import panels

COLUMNS = 3
MOST_LINES = 10
UNITS = {"s": "s", "percentunit": "share", "reqps": "a second", "ops": "a second", "Bps": "B/s"}


def age(stack: Stack) -> float:
    """Seconds for which Prometheus has data."""
    (found,) = stack.query("time() - min_over_time(timestamp(up{job='receiver'})[1h:1s])")
    return float(found["value"][1])


def draw(board: Path, stack: Stack, folder: Path, *, seconds: float) -> Path:
    """Every panel of *board* as a graph over the last *seconds*; the file."""
    shown = list(panels(board))
    rows = -(-len(shown) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(18, 2.7 * rows), layout="constrained")
    plt.rcParams["font.size"] = 8
    for axis, panel in zip(axes.flat, shown, strict=False):
        _panel(axis, panel, stack, seconds)
    for axis in list(axes.flat)[len(shown) :]:
        axis.axis("off")
    figure.suptitle(orjson.loads(board.read_bytes())["title"], fontsize=13)
    path = folder / f"{board.stem}.png"
    figure.savefig(path, dpi=75)
    plt.close(figure)
    return path


def _panel(axis: Any, panel: dict[str, Any], stack: Stack, seconds: float) -> None:
    now, lines = time.time(), 0
    for target in panel["targets"]:
        for series in stack.query(filled(target["expr"]), seconds=seconds):
            lines += 1
            if lines > MOST_LINES:
                break
            times = [float(when) - now for when, _ in series["values"]]
            values = [float(value) for _, value in series["values"]]
            axis.plot(times, values, label=_legend(target, series["metric"]), linewidth=1.2)
    unit = panel["fieldConfig"]["defaults"]["unit"]
    axis.set_title(f"{panel['title']}  [{UNITS.get(unit, 'number')}]", fontsize=9, loc="left")
    axis.set_xlim(-seconds, 0)
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=6, loc="upper left")


def _legend(target: dict[str, Any], labels: dict[str, str]) -> str:
    text: str = target.get("legendFormat") or ""
    return re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], ""), text) or "_"
