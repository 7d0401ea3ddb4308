"""The figures of a run, for programs to read."""

import json
from typing import Any

from rich.console import Console

from bench.processes import ROOT


def keep(name: str, found: dict[str, Any], console: Console) -> None:
    """Write them to bench/out/NAME.json, which git ignores, and say so."""
    out = ROOT / f"bench/out/{name}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    console.print(f"written to {out.relative_to(ROOT)}")
