"""Which dead letters a person means."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from gemhooks import topology
from gemhooks.errors import Misconfigured
from gemhooks.messages import Seen
from gemhooks.spelling import seconds


def named(context: typer.Context, option: typer.CallbackParam, value: str) -> str:
    """*value*; Misconfigured where it was given and is empty.

    A script's variable was: and what is left out means all of them.
    """
    source, name = context.get_parameter_source(str(option.name)), option.opts[0]
    if not value.strip() and source and source.name != "DEFAULT":
        raise Misconfigured(f"{name} is empty: say which, or leave it out.")
    return value


def _option(name: str, meaning: str) -> Any:
    return typer.Option(name, help=meaning, callback=named)


QueueOption = Annotated[
    str, _option("--queue", "only of this consumer; 'unrouted': what no queue wanted")
]
IdOption = Annotated[str, _option("--id", "only the event with this webhook-id")]
TypeOption = Annotated[str, _option("--type", "only this type; batch.* is a pattern")]
ReasonOption = Annotated[
    str, _option("--reason", "only for this reason or exception, as `list` shows it")
]
OlderOption = Annotated[str, _option("--older-than", "only those that died 2h ago ...")]
NewerOption = Annotated[str, _option("--newer-than", "only those that died since 2h")]


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
