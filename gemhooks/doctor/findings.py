"""What a check found: green, yellow, red or not looked at, in words, with its remedy."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from gemhooks.errors import GemhooksError


class Level(StrEnum):
    GREEN = "green"
    YELLOW = "yellow"  # works, but somebody should look
    RED = "red"  # events are lost, refused or not handled
    SKIPPED = "skipped"  # could not be looked at; says why


@dataclass(frozen=True)
class Finding:
    """One line of the table."""

    check: str
    level: Level
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Check:
    """What to look at, and the remedy where even that fails."""

    name: str
    look: Callable[[], Iterable[Finding]]
    remedy: str

    def findings(self) -> Iterator[Finding]:
        """Never raises: what stops a check is a finding too."""
        try:
            yield from list(self.look())
        except GemhooksError as error:
            yield Finding(self.name, Level.RED, str(error), self.remedy)
        except Exception as error:  # one broken check must not hide the others
            text = f"the check itself failed ({type(error).__name__})"
            yield Finding(self.name, Level.RED, text, self.remedy)


def green(check: str, text: str) -> Finding:
    return Finding(check, Level.GREEN, text)


def yellow(check: str, text: str, remedy: str) -> Finding:
    return Finding(check, Level.YELLOW, text, remedy)


def red(check: str, text: str, remedy: str) -> Finding:
    return Finding(check, Level.RED, text, remedy)


def skipped(check: str, text: str) -> Finding:
    return Finding(check, Level.SKIPPED, text)
