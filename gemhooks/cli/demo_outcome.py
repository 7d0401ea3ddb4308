"""What came out of the demo: each conversation, followed through the ledger to its end."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemhooks.cli.tables import Format, show
from gemhooks.errors import Unavailable

if TYPE_CHECKING:  # SQLAlchemy is slow to import, and --help is not
    from gemhooks.ledger import Job, Ledgers

COLUMNS = ("question", "called", "ended", "result")
LONGEST_ID = 16  # characters of an id that are shown


@dataclass(frozen=True)
class Conversation:
    """What is asked, and how it should come out."""

    question: str
    ends: str = "completed"
    calls: tuple[str, ...] = ()


CONVERSATIONS = (
    Conversation("What is a webhook?"),
    Conversation(
        "How is the weather in Vienna? And book a table for two.",
        calls=("get_weather", "book_table"),
    ),
    Conversation("Please break.", ends="failed"),
)


@dataclass(frozen=True)
class Chain:
    """A conversation as it went: one job a turn."""

    asked: Conversation
    jobs: "tuple[Job, ...]"
    called: tuple[str, ...] = field(default=())

    @property
    def has_ended(self) -> bool:
        return bool(self.jobs) and self.jobs[-1].ended_at is not None

    @property
    def is_right(self) -> bool:
        ended = self.has_ended and self.jobs[-1].state == self.asked.ends
        return ended and sorted(self.called) == sorted(self.asked.calls)

    def row(self, results: Path) -> dict[str, Any]:
        last = self.jobs[-1]
        stored = results / "interactions" / f"{last.id}.json"
        ended = f"{last.state}: {last.error_message}" if last.error_message else last.state
        return {
            "question": self.asked.question,
            "called": ", ".join(self.called) or "-",
            "ended": ended,
            "result": short(stored.name) if stored.is_file() else "-",
        }


def chains(ledgers: "Ledgers", started: dict[str, Conversation]) -> list[Chain]:
    """How each conversation stands; *started* is by the id of its first interaction."""
    return [follow(ledgers, first, asked) for first, asked in started.items()]


def follow(ledgers: "Ledgers", first: str, asked: Conversation) -> Chain:
    """From the first interaction over those that continued it to the last."""
    jobs: list[Job] = []
    called: list[str] = []
    following: str | None = first
    while following and (job := ledgers.jobs.get("interaction", following)):
        jobs.append(job)
        called += [call.function for call in ledgers.calls.of(job.id)]
        continuation = ledgers.continuations.of(job.id)
        following = continuation.successor_id if continuation else None
    return Chain(asked, tuple(jobs), tuple(called))


def report(found: list[Chain], results: Path) -> None:
    """Show a short table; Unavailable where a conversation did not come out as it should."""
    show([chain.row(results) for chain in found], COLUMNS, Format.TABLE)
    wrong = [chain.asked.question for chain in found if not chain.is_right]
    if wrong:
        raise Unavailable(f"{wrong[0]!r} did not come out as it should; see the lines above.")


def short(text: str) -> str:
    return text if len(text) <= LONGEST_ID else f"{text[:LONGEST_ID]}..."
