"""The blocks of code in our pages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.integration.processes import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
BLOCK = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"]*)")?\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(*languages: str, pages: list[Path] = PAGES) -> Iterator[Block]:
    for page in pages:
        text = page.read_text("utf-8")
        for found in BLOCK.finditer(text):
            if found["language"] in languages:
                line = text.count("\n", 0, found.start()) + 1
                yield Block(page, line, found["language"], found["title"] or "", found["text"])
