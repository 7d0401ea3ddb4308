"""What a broker has, seen without changing it: exchanges, queues, their arguments and consumers."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing

from gemhooks.errors import Misconfigured, Unavailable
from gemhooks.queues import sqlite_owners, sqlite_rows
from gemhooks.queues.sqlite import path_of
from gemhooks.queues.states import Inspection, QueueState


def inspect(url: str, queues: Sequence[str], *, management_url: str = "") -> Inspection:
    """Look at the broker at *url* and at *queues*; Misconfigured or Unavailable if it can't be."""
    if url.startswith("sqlite"):
        return _file(url, queues)
    if url.partition(":")[0] not in ("amqp", "amqps"):
        raise Misconfigured("GEMHOOKS_BROKER_URL must begin with amqp://, amqps:// or sqlite:///.")
    from gemhooks.queues.rabbitmq import inspecting  # noqa: PLC0415 - pika only when needed

    return inspecting.inspect(url, queues, management_url=management_url)


def _file(url: str, queues: Sequence[str]) -> Inspection:
    path = path_of(url)
    if not path.exists():
        return Inspection({}, missing=(str(path),), arguments_checked=True)
    try:
        with closing(sqlite_rows.connect(path)) as db:
            depths = sqlite_rows.depths(db)
            there = [name for name in queues if sqlite_rows.is_declared(db, name)]
    except sqlite3.Error as error:
        raise Unavailable(f"the queue {path} can't be read: {error}") from None
    found = {name: QueueState(depths.get(name, 0), None) for name in there}
    missing = tuple(name for name in queues if name not in found)
    alive = sqlite_owners.count_alive(path.with_name(f"{path.name}.owners"))
    return Inspection(found, missing, arguments_checked=True, processes=alive)
