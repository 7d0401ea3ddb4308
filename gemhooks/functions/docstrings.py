"""A docstring, read as the description of a function and of its parameters."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field

_SECTION = re.compile(
    r"(Args|Arguments|Parameters|Returns?|Raises|Yields?|Examples?|Notes?)\s*:\s*"
)
_PARAMETERS = frozenset({"Args", "Arguments", "Parameters"})
_PARAMETER = re.compile(r"(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


@dataclass(frozen=True, slots=True)
class Docstring:
    """What the author says: of the whole, and per parameter."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def read(function: Callable[..., object]) -> Docstring:
    """The docstring of *function* in Google's style; an empty one where there is none."""
    sections = _sections(inspect.getdoc(function) or "")
    named = [lines for title, lines in sections if title in _PARAMETERS]
    return Docstring(
        description="\n".join(sections[0][1]).strip(),
        parameters={k: v for lines in named for k, v in _parameters(lines).items()},
    )


def _sections(text: str) -> list[tuple[str, list[str]]]:
    sections: list[tuple[str, list[str]]] = [("", [])]
    for line in text.splitlines():
        title = _SECTION.fullmatch(line)
        if title:
            sections.append((title[1], []))
        else:
            sections[-1][1].append(line)
    return sections


def _parameters(lines: list[str]) -> dict[str, str]:
    """Each entry and the deeper lines that belong to it, as one line."""
    found: dict[str, list[str]] = {}
    entries = inspect.cleandoc("\n" + "\n".join(lines)).splitlines()
    for line in entries:
        entry = _PARAMETER.fullmatch(line)
        if entry:
            found[entry[1]] = [entry[2].strip()]
        elif found and line.startswith(" "):
            next(reversed(found.values())).append(line.strip())
    return {name: " ".join(filter(None, parts)) for name, parts in found.items()}
