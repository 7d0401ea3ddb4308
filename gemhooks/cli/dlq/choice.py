"""Which dead letters a person means."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer

from gemhooks import topology
from gemhooks.errors import Misconfigured
from gemhooks.messages import Seen
from gemhooks.spelling import seconds

QueueOption = Annotated[
    str, typer.Option("--queue", help="only of this consumer; 'unrouted': what no queue wanted")
]
IdOption = Annotated[str, typer.Option("--id", help="only the event with this webhook-id")]
TypeOption = Annotated[str, typer.Option("--type", help="only this type; batch.* is a pattern")]
ReasonOption = Annotated[
    str, typer.Option("--reason", help="only for this reason or exception, as `list` shows it")
]
OlderOption = Annotated[str, typer.Option("--older-than", help="only those that died 2h ago ...")]
NewerOption = Annotated[str, typer.Option("--newer-than", help="only those that died since 2h")]


@dataclass(frozen=True)
class Choice:
    """All of these must be true of a letter; what is empty is true of every letter."""

    id: str = ""
    type: str = ""
    reason: str = ""
    died_before: float = float("inf")  # Unix seconds
    died_after: float = 0.0

    @classmethod
    def of(
        cls,
        *,
        now: float,
        id: str,  # noqa: A002 - the option's name
        type: str,  # noqa: A002 - as above
        reason: str,
        older_than: str,
        newer_than: str,
    ) -> "Choice":
        """Misconfigured where an age is no time."""
        return cls(
            id,
            type,
            reason,
            now - age(older_than, "--older-than") if older_than else float("inf"),
            now - age(newer_than, "--newer-than") if newer_than else 0.0,
        )

    @property
    def is_everything(self) -> bool:
        return self == Choice()

    def takes(self, seen: Seen) -> bool:
        message, headers = seen.message, seen.headers
        words = (headers.get("gemhooks-dead-reason"), headers.get("gemhooks-dead-error-type"))
        return (
            self.id in ("", message.id)
            and (not self.type or topology.matches(self.type, message.type))
            and (not self.reason or self.reason in words)
            and self.died_after <= died_at(seen) <= self.died_before
        )


def died_at(seen: Seen) -> float:
    """Unix seconds; of what is no dead letter, when it was sent to us."""
    text = seen.headers.get("gemhooks-dead-at", "")
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return float(seen.message.timestamp)


def age(text: str, option: str) -> float:
    try:
        return seconds(text)
    except ValueError:
        raise Misconfigured(f"{option} {text!r} is no time: write 90s, 5m, 2h or 3d.") from None
