"""Queues in one SQLite file, for all processes of one machine, with RabbitMQ's promises.

Not to be used across fork(): start processes anew.
"""

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import structlog

from gemhooks import topology
from gemhooks.errors import Misconfigured, PublishFailed
from gemhooks.messages import DeadLetter, Headers, Message, OnDelivery, Seen
from gemhooks.queues import sqlite_rows as rows
from gemhooks.queues.sqlite_owners import Owner
from gemhooks.queues.sqlite_writer import MOST_BYTES, Deadlines, Job, NoRoom, Writer

PREFIX = "sqlite:///"
SHORTEST_POLL, LONGEST_POLL = 0.005, 0.05  # seconds between looks for others' messages
LOOK_FOR_DEAD = 0.1  # seconds between looks for owners that died
AGE_OUT = 3600.0
RESERVE = 16 << 20  # bytes of the disk that no message may take: SQLite's log needs some, too
LONGEST_SILENCE = 5.0  # seconds without a successful look: it does not consume

_log = structlog.get_logger(__name__)


class SqliteBroker:
    def __init__(
        self,
        url: str,
        *,
        publish_timeout: float = 5.0,
        queues: Sequence[topology.Queue] = (),
    ) -> None:
        self.path = path_of(url)
        self._queues = [*topology.BUILT_IN, *queues]
        self._timeout = publish_timeout
        self._lock = threading.Lock()
        self._owner: Owner | None = None
        self._subscribers: list[SqliteSubscriber] = []
        self._closed = False
        self._age_out_at = 0.0
        self._deadlines = Deadlines(publish_timeout)
        self._writer = Writer(self.connect, self._wake, self._has_room)

    @property
    def publisher(self) -> "SqliteBroker":
        return self

    def publish(self, message: Message, *, exchange: str = topology.EVENTS) -> Future[None]:
        properties = rows.properties_of(message)  # here, not in the one thread that writes
        size = len(message.body) + len(properties)
        job = Job(lambda db: rows.publish(db, exchange, message, properties), grows=True, size=size)
        self._deadlines.watch(job)
        return self._writer.submit(job).future

    def declare(self, queues: list[topology.Queue]) -> None:
        self.check()
        self._queues += [queue for queue in queues if queue not in self._queues]
        job = Job(lambda db: rows.bind(db, queues))
        self._deadlines.watch(job)
        self._writer.submit(job).future.result()

    def consume(self, queue: str, on_delivery: OnDelivery, *, prefetch: int) -> "SqliteSubscriber":
        subscriber = SqliteSubscriber(self, queue, on_delivery, prefetch)
        with self._lock:
            self._subscribers.append(subscriber)
        self.write(_nothing)  # makes the tables where they are missing
        subscriber.start()
        return subscriber

    def is_ready(self) -> bool:
        if self._closed:
            return False
        job = Job(rows.probe, grows=True) if self._writer.error else Job(_nothing)
        self._deadlines.watch(job)
        with suppress(PublishFailed, TimeoutError):
            self._writer.submit(job).future.result(timeout=1)
            return True
        job.future.cancel()
        return False

    def check(self) -> None:
        """Raise Misconfigured with what a person must change."""
        try:
            self._create()
            with closing(rows.connect(self.path)) as db:
                db.execute("BEGIN IMMEDIATE")  # a file that can only be read fails here
                db.execute("ROLLBACK")
        except sqlite3.DatabaseError as error:
            _explain(self.path, error)
        except OSError as error:
            raise Misconfigured(f"The queue {self.path} can't be used: {error.strerror}.") from None

    def send(self, queue: str, message: Message) -> Future[None]:
        properties = rows.properties_of(message)
        job = Job(lambda db: rows.send(db, queue, message, properties), grows=True)
        self._deadlines.watch(job)
        return self._writer.submit(job).future

    def look(self, queue: str) -> "SqliteLook":
        with closing(self.connect()) as db:
            if not rows.is_known(db, queue):
                raise Misconfigured(f"There is no queue {queue!r} in {self.path}.")
        return SqliteLook(self, queue)

    def browse(self, queue: str, limit: int = 100) -> list[tuple[Message, Headers]]:
        """The oldest messages and their headers, left where they are."""
        with closing(self.look(queue)) as look:
            return [(seen.message, seen.headers) for seen in islice(look, limit)]

    def dead_letter_queues(self) -> list[str]:
        known = {queue.dead_letters for queue in self._queues}
        with closing(self.connect()) as db:
            return sorted(known.union(rows.queues_like(db, topology.dead_letters("*"))))

    def is_alive(self) -> bool:
        """Its threads run; what they wait for is another question."""
        return self._writer.is_alive() and all(each.is_alive() for each in self._subscribers)

    def depth(self, queue: str) -> int:
        """How many messages it has: ready, waiting and taken."""
        found = self._read("SELECT count(*) FROM messages WHERE queue = ?", (queue,))
        return int(found[0][0])

    def _read(self, query: str, values: tuple[str | int, ...]) -> list[tuple[Any, ...]]:
        with closing(self.connect()) as db:
            return db.execute(query, values).fetchall()

    def close(self, *, timeout: float = 5.0) -> None:
        if self._closed:
            return
        self._closed = True
        deadline = time.monotonic() + timeout
        self._stop_subscribers(deadline)
        if self._owner is not None:
            name = self._owner.name
            self.write(lambda db: rows.release(db, name))
        self._writer.close(max(0.0, deadline - time.monotonic()))
        self._deadlines.close()
        if self._owner is not None:
            self._owner.release()

    def _stop_subscribers(self, deadline: float) -> None:
        for subscriber in self._subscribers:
            subscriber.stop()
        for subscriber in self._subscribers:
            subscriber.join(max(0.0, deadline - time.monotonic()))

    def write(self, work: rows.Work) -> None:
        """Write it sooner or later: what was settled must not be forgotten."""
        self._writer.submit(Job(work, persists=True))

    def take(self, queue: str, limit: int) -> list[rows.Row]:
        owner = self.owner().name
        job = Job(lambda db: rows.take(db, queue, owner, _affordable(db, limit)))
        taken: list[rows.Row] = self._writer.submit(job).future.result()
        return taken

    def owner(self) -> Owner:
        with self._lock:
            if self._owner is None:
                folder = self.path.with_name(self.path.name + ".owners")
                self._owner = Owner(folder)
                self._owner.sweep()
            return self._owner

    def keep_house(self, db: sqlite3.Connection) -> None:
        """What somebody must do now and then: each subscriber's thread calls it."""
        self._return_rows_of_the_dead(db)
        if time.monotonic() > self._age_out_at:
            self._age_out_at = time.monotonic() + AGE_OUT
            self.write(rows.age_out)

    def _return_rows_of_the_dead(self, db: sqlite3.Connection) -> None:
        owner = self.owner()
        for other in rows.owners(db):
            if owner.is_dead(other):
                self.write(partial(rows.release, owner=other))

    def connect(self) -> rows.Connection:
        self._create()
        db = rows.connect(self.path)
        try:
            rows.prepare(db, self._queues)
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _create(self) -> None:
        if not self.path.exists():
            with suppress(FileExistsError):
                self.path.parent.mkdir(mode=0o700)
            rows.create(self.path)

    def _has_room(self, db: rows.Connection) -> bool:
        """On the disk, or within the file where messages have left it."""
        left = rows.spare(db)
        return left > RESERVE or (left > RESERVE // 2 and rows.free_space(db) > MOST_BYTES)

    def _wake(self) -> None:
        for subscriber in self._subscribers:
            subscriber.wake()


class SqliteLook:
    """A walk through a queue, a page at a time, without a lock."""

    def __init__(self, broker: SqliteBroker, queue: str) -> None:
        self._broker, self._queue = broker, queue
        self._total = broker.depth(queue)
        self._db = broker.connect()

    def __len__(self) -> int:
        return self._total

    def __iter__(self) -> Iterator[Seen]:
        last = 0
        while found := rows.page(self._db, self._queue, last):
            for id_, properties, body in found:
                yield Seen(*rows.read(properties, body), id_)
            last = found[-1][0]

    def remove(self, seen: Seen) -> None:
        self._broker.write(lambda db: rows.remove_seen(db, self._queue, seen.place))

    def close(self) -> None:
        self._db.close()


class SqliteSubscriber:
    """A thread that takes rows of one queue."""

    def __init__(
        self, broker: SqliteBroker, queue: str, on_delivery: OnDelivery, prefetch: int
    ) -> None:
        self._broker, self._queue = broker, queue
        self._on_delivery = on_delivery
        self._prefetch, self._unsettled = prefetch, 0
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._stopped = False
        self._looked_for_dead = 0.0
        self.alive_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"take-{queue}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def is_alive(self) -> bool:
        return self._stopped or self._thread.is_alive()

    @property
    def is_consuming(self) -> bool:
        return not self._stopped and time.monotonic() - self.alive_at < LONGEST_SILENCE

    def stop(self) -> None:
        self._stopped = True
        self._woken.set()

    def join(self, timeout: float) -> None:
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def wake(self) -> None:
        self._woken.set()

    def settled(self) -> None:
        with self._lock:
            self._unsettled -= 1
        self._woken.set()

    def _run(self) -> None:
        while not self._stopped:
            try:
                with closing(self._broker.connect()) as db:  # bound again, if the file is new
                    self._serve(db)
            except (sqlite3.Error, OSError, PublishFailed):
                self._woken.wait(LONGEST_POLL)  # it can't be used; it will heal without us

    def _serve(self, db: rows.Connection) -> None:
        pause = SHORTEST_POLL
        while not self._stopped and db.is_current:
            self._woken.clear()
            self._look_for_dead(db)
            pause = SHORTEST_POLL if self._take(db) else min(pause * 2, LONGEST_POLL)
            self.alive_at = time.monotonic()
            self._woken.wait(pause)

    def _look_for_dead(self, db: sqlite3.Connection) -> None:
        if time.monotonic() - self._looked_for_dead > LOOK_FOR_DEAD:
            self._looked_for_dead = time.monotonic()
            self._broker.keep_house(db)

    def _take(self, db: sqlite3.Connection) -> bool:
        free = self._prefetch - self._unsettled
        if free <= 0 or not rows.has_work(db, self._queue):
            return False
        taken = self._broker.take(self._queue, free)
        with self._lock:
            self._unsettled += len(taken)
        for row in taken:
            self._deliver(SqliteDelivery(self._broker, self, row))
        return bool(taken)

    def _deliver(self, delivery: "SqliteDelivery") -> None:
        if self._stopped:  # it was taken while stop() was called
            delivery.refuse()
            return
        try:
            self._on_delivery(delivery)
        except Exception:
            _log.exception("on_delivery_failed", queue=self._queue)  # it stays unsettled


class SqliteDelivery:
    """A taken row; only the first settlement counts."""

    def __init__(self, broker: SqliteBroker, subscriber: SqliteSubscriber, row: rows.Row) -> None:
        self._broker, self._subscriber, self._row = broker, subscriber, row
        self._once = threading.Lock()

    @property
    def message(self) -> Message:
        return self._row.message

    @property
    def redelivered(self) -> bool:
        return self._row.taken > 1

    def ack(self) -> None:
        self._settle(lambda db: rows.remove(db, self._row))

    def later(self, message: Message, *, after: float) -> None:
        properties, at = rows.properties_of(message), time.time() + after
        self._settle(lambda db: rows.later(db, self._row, properties, message.body, at))

    def dead(self, letter: DeadLetter) -> None:
        properties = rows.buried_properties(self._row, letter)
        self._settle(lambda db: rows.bury(db, self._row, properties))

    def give_back(self) -> None:
        self._settle(lambda db: rows.give_back(db, self._row))

    def refuse(self) -> None:
        """As give_back(), by who has shown it to nobody: no work may have begun."""
        self._settle(lambda db: rows.untake(db, self._row))

    def _settle(self, work: rows.Work) -> None:
        if self._once.acquire(blocking=False):
            self._broker.write(work)
            self._subscriber.settled()


def path_of(url: str) -> Path:
    """``sqlite:///relative.db`` or ``sqlite:////absolute.db``, as SQLAlchemy writes it.

    Absolute from here on: a handler may change the folder that it is relative to.
    """
    if not url.startswith(PREFIX) or len(url) == len(PREFIX):
        raise Misconfigured("A queue in a file is written sqlite:///path/to/file.db.")
    return Path(url.removeprefix(PREFIX)).absolute()


def _affordable(db: rows.Connection, limit: int) -> int:
    """How many rows may be taken: each is written anew, and the log grows while somebody reads.

    What is then left is for acknowledgements, and for the file to take up the log's pages.
    """
    left = rows.spare(db)
    if left < RESERVE // 4:
        raise NoRoom("the disk is full")
    return limit if left > RESERVE // 2 else 1


def _nothing(_: sqlite3.Connection) -> None:
    """The transaction alone shows that the file can be locked."""


def _explain(path: Path, error: sqlite3.DatabaseError) -> None:
    code = error.sqlite_errorcode & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return  # it is one, and in use
    if code == sqlite3.SQLITE_NOTADB:
        raise Misconfigured(f"The queue {path} is not an SQLite database.") from None
    raise Misconfigured(f"The queue {path} can't be used: {error}.") from None
