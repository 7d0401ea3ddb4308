"""Writes the dashboards: `make dashboards`; a test compares them with what is committed."""

from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from deploy.grafana import consumer, overview

FOLDER = Path(__file__).parent / "dashboards"
BOARDS = {"overview": overview.build, "consumer": consumer.build}


def text_of(board: Any) -> str:
    return JSONEncoder(sort_keys=True, indent=2).encode(board.build()) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, build in BOARDS.items():
        (FOLDER / f"{name}.json").write_text(text_of(build()), encoding="utf-8")
