"""The file's tables, and each thing that is done to them, as SQL."""

# ruff: noqa: S608 - what is put together here are constants of this file

import json
import os
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from gemhooks import topology
from gemhooks.errors import PublishFailed
from gemhooks.messages import DeadLetter, Headers, Message, from_headers, headers_of

PRAGMAS = (
    "PRAGMA busy_timeout=100",  # ms; short, so that the writer sees its deadlines
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",  # a confirmed message survives a power cut
    # Debian's SQLite writes zeros over what is deleted: each ack would cost its body's size again.
    "PRAGMA secure_delete=FAST",
)

# A row is ready (no owner, no available_at), waiting (available_at) or taken (owner). Due rows
# become ready in the place of their id: old retries never starve behind new messages, and
# a clock that jumps back delays only what waits anyway. AUTOINCREMENT: an id is never used twice.
SCHEMA = (
    """CREATE TABLE IF NOT EXISTS bindings (
        exchange TEXT NOT NULL, pattern TEXT NOT NULL, queue TEXT NOT NULL,
        PRIMARY KEY (exchange, pattern, queue)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, properties TEXT NOT NULL,
        available_at REAL, owner TEXT, taken INTEGER NOT NULL DEFAULT 0,
        enqueued_at REAL NOT NULL, body BLOB NOT NULL)""",
    """CREATE INDEX IF NOT EXISTS messages_ready ON messages (queue, id)
        WHERE owner IS NULL AND available_at IS NULL""",
    """CREATE INDEX IF NOT EXISTS messages_waiting ON messages (queue, available_at)
        WHERE available_at IS NOT NULL""",
    "CREATE INDEX IF NOT EXISTS messages_taken ON messages (owner) WHERE owner IS NOT NULL",
)
IS_READY = "queue = ? AND owner IS NULL AND available_at IS NULL"
IS_DUE = "queue = ? AND available_at IS NOT NULL AND available_at <= ?"
LISTENER = "gemhooks.listen."  # begins the name of a temporary queue; its owner's ends it
LISTENER_TTL = 3600.0  # seconds
GROUP = 1000  # due rows made ready at once; more would hold the lock for too long


@dataclass(frozen=True, slots=True)
class Row:
    """A taken row; *taken* tells this taking from a later one."""

    id: int
    owner: str
    taken: int
    queue: str
    headers: Headers
    message: Message


def create(path: Path) -> None:
    """O_EXCL: opening and closing an existing file would drop SQLite's own locks on it."""
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        os.close(os.open(path, flags, 0o600))
    except FileExistsError:
        return


def identity(path: Path) -> tuple[int, int]:
    """Which file it is; (0, 0) where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_dev, found.st_ino


def room(path: Path) -> int:
    """Bytes that are left on the disk."""
    place = path if path.exists() else path.absolute().parent
    try:
        found = os.statvfs(place)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def spare(db: "Connection") -> int:
    """Bytes of the disk that nothing needs: the log's pages will want theirs in the file."""
    size = db.path.stat().st_size if db.path.exists() else 0
    return room(db.path) - max(0, _bytes(db, "page_count") - size)


def free_space(db: sqlite3.Connection) -> int:
    """Bytes of the file that hold nothing."""
    return _bytes(db, "freelist_count")


def _bytes(db: sqlite3.Connection, pages: str) -> int:
    (count,) = db.execute(f"PRAGMA {pages}").fetchone()
    (size,) = db.execute("PRAGMA page_size").fetchone()
    return int(count) * int(size)


def shorten_log(db: sqlite3.Connection) -> None:
    """Give the space of SQLite's log back, where no reader needs it any more."""
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


class Connection(sqlite3.Connection):
    """Knows whether its file is still the one that others open by its name."""

    path: Path
    opened: tuple[int, int]

    @property
    def is_current(self) -> bool:
        return identity(self.path) == self.opened


def connect(path: Path) -> Connection:
    uri = f"{path.absolute().as_uri()}?mode=rw"
    db = sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, factory=Connection
    )
    db.path, db.opened = path, identity(path)
    try:
        for pragma in PRAGMAS:
            db.execute(pragma).fetchall()
    except sqlite3.Error:
        db.close()
        raise
    return db


def prepare(db: sqlite3.Connection, queues: list[topology.Queue]) -> None:
    """Make tables and bindings; does not write, so needs no lock, where all is there."""
    bound = set(db.execute("SELECT queue FROM bindings")) if _is_prepared(db) else set()
    if {(queue.name,) for queue in queues} <= bound:
        return
    db.execute("BEGIN IMMEDIATE")
    for statement in SCHEMA:
        db.execute(statement)
    bind(db, queues)
    db.execute("COMMIT")


def _is_prepared(db: sqlite3.Connection) -> bool:
    table = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'messages_taken'")
    return table.fetchone() is not None


def bind(db: sqlite3.Connection, queues: list[topology.Queue]) -> None:
    for queue in queues:
        own = (topology.RETURN, queue.name, queue.name)
        rows = [own, *((exchange, pattern, queue.name) for exchange, pattern in queue.bindings)]
        db.executemany("INSERT OR IGNORE INTO bindings VALUES (?, ?, ?)", rows)


def route(db: sqlite3.Connection, exchange: str, routing_key: str) -> list[str]:
    """The queues that get it; the unrouted one where RabbitMQ's alternate exchange would.

    PublishFailed for an exchange that nobody but the publisher has heard of.
    """
    named = db.execute("SELECT pattern, queue FROM bindings WHERE exchange = ?", (exchange,))
    bindings = named.fetchall()
    if not bindings and exchange not in topology.OURS:
        raise PublishFailed("refused", f"no exchange {exchange!r}")
    found = {queue for pattern, queue in bindings if topology.matches(pattern, routing_key)}
    if not found and exchange != topology.RESULTS:
        return [topology.UNROUTED]
    return sorted(found)


def is_declared(db: sqlite3.Connection, queue: str) -> bool:
    """Whether it is a consumer's queue, the dead letters of one, or where the unrouted lie."""
    name = queue.removesuffix(topology.dead_letters(""))
    found = db.execute(
        "SELECT 1 FROM bindings WHERE exchange = ? AND pattern = ? AND queue = ?",
        (topology.RETURN, name, name),  # each queue has this one, see bind()
    )
    return queue == topology.UNROUTED or found.fetchone() is not None


def is_known(db: sqlite3.Connection, queue: str) -> bool:
    """Whether it is declared, or holds something: the letters of a queue that is gone, say."""
    held = "SELECT 1 FROM messages WHERE queue = ? LIMIT 1"
    return is_declared(db, queue) or db.execute(held, (queue,)).fetchone() is not None


def send(db: sqlite3.Connection, queue: str, message: Message, properties: str) -> None:
    """To that queue alone; PublishFailed where there is none, as RabbitMQ returns it."""
    if not is_declared(db, queue):
        raise PublishFailed("returned", f"no queue {queue!r}")
    insert(db, queue, properties, message.body)


def publish(db: sqlite3.Connection, exchange: str, message: Message, properties: str) -> None:
    available_at = time.time() + message.waiting if message.waiting else None
    for queue in route(db, exchange, message.routing_key):
        insert(db, queue, properties, message.body, available_at)


def insert(
    db: sqlite3.Connection,
    queue: str,
    properties: str,
    body: bytes,
    available_at: float | None = None,
) -> None:
    db.execute(
        "INSERT INTO messages (queue, properties, body, available_at, enqueued_at)"
        " VALUES (?, ?, ?, ?, ?)",
        (queue, properties, body, available_at, time.time()),
    )


def has_work(db: sqlite3.Connection, queue: str) -> bool:
    """Whether take() would find something; asked often, so it locks nothing."""
    found = db.execute(
        f"SELECT EXISTS (SELECT 1 FROM messages WHERE {IS_READY})"
        f" OR EXISTS (SELECT 1 FROM messages WHERE {IS_DUE})",
        (queue, queue, time.time()),
    ).fetchone()
    return bool(found[0])


def take(db: sqlite3.Connection, queue: str, owner: str, limit: int) -> list[Row]:
    _make_due_ready(db, queue)
    taken = db.execute(
        "UPDATE messages SET owner = ?, taken = taken + 1 WHERE id IN"
        f" (SELECT id FROM messages WHERE {IS_READY} ORDER BY id LIMIT ?)"
        " RETURNING id, taken, properties, body",
        (owner, queue, limit),
    ).fetchall()
    return [_row(queue, owner, values) for values in sorted(taken)]


def _make_due_ready(db: sqlite3.Connection, queue: str) -> None:
    db.execute(
        "UPDATE messages SET available_at = NULL WHERE id IN"
        f" (SELECT id FROM messages WHERE {IS_DUE} ORDER BY available_at LIMIT ?)",
        (queue, time.time(), GROUP),
    )


def _row(queue: str, owner: str, values: tuple[int, int, str, bytes]) -> Row:
    id_, taken, properties, body = values
    message, headers = read(properties, body)
    return Row(id_, owner, taken, queue, headers, message)


def remove(db: sqlite3.Connection, row: Row) -> bool:
    """False where another owner has taken the row meanwhile."""
    mine = "id = ? AND owner = ? AND taken = ?"
    deleted = db.execute(
        f"DELETE FROM messages WHERE {mine}",
        (row.id, row.owner, row.taken),
    )
    return deleted.rowcount == 1


def later(db: sqlite3.Connection, row: Row, properties: str, body: bytes, at: float) -> None:
    if remove(db, row):
        insert(db, row.queue, properties, body, at)


def bury(db: sqlite3.Connection, row: Row, properties: str) -> None:
    if remove(db, row):
        insert(db, topology.dead_letters(row.queue), properties, row.message.body)


def give_back(db: sqlite3.Connection, row: Row) -> None:
    db.execute(
        "UPDATE messages SET owner = NULL WHERE id = ? AND owner = ? AND taken = ?",
        (row.id, row.owner, row.taken),
    )


def untake(db: sqlite3.Connection, row: Row) -> None:
    """As if it had not been taken; for a row that nobody has seen."""
    db.execute(
        "UPDATE messages SET owner = NULL, taken = taken - 1"
        " WHERE id = ? AND owner = ? AND taken = ?",
        (row.id, row.owner, row.taken),
    )


PAGE = 100  # rows read at once by who looks


def page(db: sqlite3.Connection, queue: str, after: int) -> list[tuple[int, str, bytes]]:
    """The next rows of *queue* that nobody has in hands, behind the row *after*."""
    found = db.execute(
        "SELECT id, properties, body FROM messages"
        " WHERE queue = ? AND id > ? AND owner IS NULL ORDER BY id LIMIT ?",
        (queue, after, PAGE),
    )
    return found.fetchall()


def remove_seen(db: sqlite3.Connection, queue: str, id_: int) -> None:
    db.execute("DELETE FROM messages WHERE queue = ? AND id = ? AND owner IS NULL", (queue, id_))


def queues_like(db: sqlite3.Connection, pattern: str) -> list[str]:
    found = db.execute(
        "SELECT DISTINCT queue FROM messages WHERE queue GLOB ? ORDER BY queue", (pattern,)
    )
    return [queue for (queue,) in found]


def owners(db: sqlite3.Connection) -> list[str]:
    found = db.execute("SELECT DISTINCT owner FROM messages WHERE owner IS NOT NULL")
    return [owner for (owner,) in found]


def release(db: sqlite3.Connection, owner: str) -> None:
    db.execute("UPDATE messages SET owner = NULL WHERE owner = ?", (owner,))


def probe(db: sqlite3.Connection) -> None:
    """Write as much as a message would, and leave nothing."""
    db.execute(
        "INSERT INTO messages (queue, properties, body, enqueued_at)"
        " VALUES ('gemhooks.probe', '', zeroblob(16384), 0)"
    )
    db.execute(
        "DELETE FROM messages WHERE queue = 'gemhooks.probe' AND properties = ''"
        " AND owner IS NULL AND available_at IS NULL"
    )


def age_out(db: sqlite3.Connection) -> None:
    """What RabbitMQ's limits of the unrouted queue do."""
    oldest = f"SELECT id FROM messages WHERE {IS_READY}"
    db.execute(
        f"DELETE FROM messages WHERE id IN ({oldest} AND enqueued_at < ?)",
        (topology.UNROUTED, time.time() - topology.UNROUTED_TTL),
    )
    db.execute(
        f"DELETE FROM messages WHERE id IN ({oldest} ORDER BY id DESC LIMIT -1 OFFSET ?)",
        (topology.UNROUTED, topology.UNROUTED_MAX_LENGTH),
    )
    db.execute(  # of listeners that were killed
        "DELETE FROM messages WHERE queue GLOB ? AND enqueued_at < ?",
        (f"{LISTENER}*", time.time() - LISTENER_TTL),
    )


def listeners(db: sqlite3.Connection) -> list[str]:
    """The temporary queues, of the living and of the dead."""
    found = db.execute("SELECT DISTINCT queue FROM bindings WHERE queue GLOB ?", (f"{LISTENER}*",))
    return [queue for (queue,) in found]


def forget(db: sqlite3.Connection, queue: str) -> None:
    """A temporary queue and what is in it."""
    db.execute("DELETE FROM bindings WHERE queue = ?", (queue,))
    db.execute("DELETE FROM messages WHERE queue = ?", (queue,))


def properties_of(message: Message, headers: Headers | None = None) -> str:
    """Without *waiting*: a row waits once, for as long as it takes."""
    message = replace(message, waiting=0)
    return json.dumps(
        {
            "id": message.id,
            "type": message.type,
            "timestamp": message.timestamp,
            "content_type": message.content_type,
            "headers": headers_of(message) if headers is None else headers,
        }
    )


def buried_properties(row: Row, letter: DeadLetter) -> str:
    return properties_of(row.message, {**row.headers, **letter.headers(row.message, row.queue)})


def read(properties: str, body: bytes) -> tuple[Message, dict[str, str | int]]:
    known = json.loads(properties)
    headers: dict[str, str | int] = known["headers"]
    message = from_headers(
        headers,
        body,
        message_id=known["id"],
        message_type=known["type"],
        timestamp=known["timestamp"],
        content_type=known["content_type"],
    )
    return message, headers


def depths(db: sqlite3.Connection) -> dict[str, int]:
    """How many messages each queue has that has any: ready, waiting and taken."""
    return dict(db.execute("SELECT queue, count(*) FROM messages GROUP BY queue"))


Work = Callable[[sqlite3.Connection], object]
