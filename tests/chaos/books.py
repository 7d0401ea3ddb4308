"""Compares what Gemini was told with what the ledger, the queues and the files hold."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from gemhooks import topology
from gemhooks.heads import subject
from gemhooks.queues.rabbitmq import RabbitBroker
from gemhooks.simulator.deliveries import Attempt, is_success
from gemhooks.simulator.faults import Kind

EFFECT_TYPE = "interaction.requires_action"
QUEUES = {
    "interaction.completed": topology.INTERACTIONS.name,
    "interaction.failed": topology.INTERACTIONS.name,
    EFFECT_TYPE: topology.FUNCTIONS.name,
}


@dataclass(frozen=True)
class Event:
    """What a webhook told; *key* is how the ledger knows it."""

    webhook_id: str
    type: str
    resource_id: str

    @property
    def key(self) -> tuple[str, str]:
        return QUEUES[self.type], subject(self.type, self.resource_id)


@dataclass
class Books:
    """Where everything is, at one moment."""

    sent: set[Event]
    accepted: set[Event]
    handled: set[tuple[str, str]]
    dead: set[str]  # webhook-ids
    charges: Counter[str]
    parked: set[str]  # calls whose outcome a person must find out
    heard: Counter[str]  # by interaction
    twice_by_the_living: set[str] = field(default_factory=set[str])

    @property
    def lost(self) -> set[Event]:
        return {
            each
            for each in self.accepted
            if each.webhook_id not in self.dead and each.key not in self.handled
        }

    @property
    def progress(self) -> int:
        """Grows as long as anything happens."""
        return len(self.accepted) + len(self.handled) + len(self.dead) + self.heard.total()

    @property
    def doubled(self) -> set[str]:
        """Effects of functions that happened more than once."""
        return {call for call, count in self.charges.items() if count > 1}

    @property
    def unheard(self) -> set[str]:
        """Completed, fetched, and no consumer of results was ever told."""
        told = {
            each.resource_id for each in self.accepted if each.type == "interaction.completed"
        } - {""}
        return told - set(self.heard)


def events_of(attempts: Iterable[Attempt]) -> tuple[set[Event], set[Event]]:
    """Sent, and accepted: answered 2xx at least once. Forged copies are neither."""
    sent, accepted = set[Event](), set[Event]()
    for each in attempts:
        if each.kind in (Kind.NORMAL, Kind.ACCOMPANIED, Kind.DUPLICATE):
            event = Event(each.id, each.type, each.resource_id)
            sent.add(event)
            if is_success(each.status):
                accepted.add(event)
    return sent, accepted


def open_books(
    attempts: Iterable[Attempt],
    database_url: str,
    *,
    dead: set[str],
    charges: Path,
    heard: Path,
    killed: set[int],
) -> Books:
    sent, accepted = events_of(attempts)
    with psycopg.connect(database_url) as connection:
        handled = connection.execute("SELECT queue, key FROM handled WHERE state = 'done'")
        parked = connection.execute(
            "SELECT interaction_id || ' ' || call_id FROM function_calls WHERE state = 'unknown'"
        )
        books = Books(
            sent,
            accepted,
            {(queue, key) for queue, key in handled},
            dead,
            Counter(lines(charges)),
            {call for (call,) in parked},
            Counter(),
        )
    read_heard(books, heard, killed)
    return books


def read_heard(books: Books, path: Path, killed: set[int]) -> None:
    """A plain handler runs again after its process was killed, and only then."""
    first: dict[str, int] = {}
    for line in lines(path):
        interaction, pid, _attempt = line.split()
        if interaction in first and first[interaction] not in killed:
            books.twice_by_the_living.add(interaction)
        first[interaction] = int(pid)
        books.heard[interaction] += 1


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def dead_letters(url: str) -> set[str]:
    """Webhook-ids of all that were given up."""
    with closing(RabbitBroker(url)) as broker:
        return {
            message.id
            for name in broker.dead_letter_queues()
            for message, _ in broker.browse(name, 100_000)
        }


def outcomes(folder: Path) -> Counter[str]:
    """What the workers' log lines say became of their messages."""
    found: Counter[str] = Counter()
    for log in folder.glob("*.log"):
        for line in log.read_text(errors="replace").splitlines():
            if '"message_handled"' in line and (match := re.search(r'"outcome":"(\w+)"', line)):
                found[match[1]] += 1
    return found


def as_json(books: Books) -> str:
    return json.dumps(
        {
            "lost": [vars(each) for each in sorted(books.lost, key=lambda one: one.webhook_id)],
            "doubled": sorted(books.doubled),
            "unheard": sorted(books.unheard),
            "twice_by_the_living": sorted(books.twice_by_the_living),
        },
        indent=2,
    )
