"""Which file of docs/reference/ is written by what; metrics.md is by deploy/reference.py."""

from collections.abc import Callable, Iterator
from pathlib import Path

from handbook import cli, contract, errors, settings

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
NOTE = "<!-- Written by `make docs` from the code: mend that, not this. -->\n\n"
PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli.page,
    "errors.md": errors.page,
    "settings.md": settings.page,
    "messages.schema.json": contract.schema_text,
    "asyncapi.yaml": contract.asyncapi_text,
}


def stale() -> Iterator[tuple[Path, str]]:
    """Path and right text of every file that differs from what the code says now."""
    for name, write in PAGES.items():
        path = FOLDER / name
        text = (NOTE if name.endswith(".md") else "") + write()
        if not path.exists() or path.read_text("utf-8") != text:
            yield path, text
