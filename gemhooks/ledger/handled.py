"""What was handled and what is being handled, so that a copy runs no handler again."""

import secrets
import threading
import time
from collections.abc import Iterable
from typing import NamedTuple

from gemhooks.ledger import claims, retention
from gemhooks.ledger.claims import GRANTED, Key
from gemhooks.ledger.database import Database
from gemhooks.ledger.renewer import Renewer
from gemhooks.ledger.texts import storable
from gemhooks.messages import Claim, Claimed

LEASE = 30.0  # seconds; for so long the copies of a dead process's messages wait
SWEEP_LIMIT = 1000  # rows a step; more would keep other writers waiting


class Moment(NamedTuple):
    """By both clocks: one stands still while the machine sleeps, people set the other."""

    steady: float
    wall: float

    @classmethod
    def now(cls) -> "Moment":
        return cls(time.monotonic(), time.time())

    @property
    def age(self) -> float:
        """Seconds since then, at most."""
        now = Moment.now()
        return max(now.steady - self.steady, now.wall - self.wall)


class DatabaseLedger:
    """The Ledger of all processes that share a database."""

    def __init__(self, database: Database, *, lease: float = LEASE) -> None:
        self._database = database
        self._lease = lease
        self._owner = secrets.token_hex(8)  # of this object: no process id is unique for long
        self._live: dict[Key, Moment] = {}  # since when their lease runs, at the latest
        self._lock = threading.Lock()
        self._renewer = Renewer(self._renew, self._sweep_more, every=lease / 3)

    def claim(self, queue: str, key: str, *, redelivered: bool) -> Claimed:
        at, since = _at(queue, key), Moment.now()
        claimed = self._database.write(
            lambda connection: claims.take(
                connection, at, redelivered=redelivered, owner=self._owner, lease=self._lease
            )
        )
        if claimed.claim is Claim.GRANTED:
            self._keep([at], since)
        return claimed

    def claim_new(self, queue: str, *keys: str) -> list[Claimed | None]:
        ats, since = [_at(queue, key) for key in keys], Moment.now()
        answers = self._database.write(
            lambda connection: claims.take_new(
                connection, ats, owner=self._owner, lease=self._lease
            )
        )
        granted = [at for at, answer in zip(ats, answers, strict=True) if answer == GRANTED]
        self._keep(granted, since)
        return answers

    def holds(self, queue: str, key: str) -> bool:
        at = _at(queue, key)
        since = self._live.get(at)
        if since is not None and since.age < self._lease:
            return True
        return at in self._renewed([at])

    def done(self, queue: str, *keys: str) -> None:
        ats = self._forget(queue, keys)
        self._database.write(lambda connection: claims.finish(connection, ats))

    def release(self, queue: str, *keys: str, ended: bool = True) -> None:
        ats = self._forget(queue, keys)
        self._database.write(
            lambda connection: claims.free(connection, ats, owner=self._owner, ended=ended)
        )

    def forget_starts(self, queue: str, key: str) -> None:
        """It got further than before, so what is being handled does not kill its process."""
        at = _at(queue, key)
        self._database.write(
            lambda connection: claims.forget_starts(connection, at, owner=self._owner)
        )

    def is_done(self, queue: str, key: str) -> bool:
        """Whether it was handled already, for a person who asks."""
        at = _at(queue, key)
        return self._database.read(lambda connection: claims.is_done(connection, at))

    def is_known(self, queue: str, key: str) -> bool:
        """Whether anybody ever began to handle it, however that ended or goes on."""
        at = _at(queue, key)
        return self._database.read(lambda connection: claims.is_known(connection, at))

    def sweep(self, limit: int = SWEEP_LIMIT) -> int:
        """Delete at most *limit* rows that are too old to matter; return how many they were."""
        return self._database.write(lambda connection: retention.sweep(connection, limit=limit))

    def close(self) -> None:
        """Keep no claim alive any more; those that are open end with their lease."""
        self._renewer.close()

    def _keep(self, ats: Iterable[Key], since: Moment) -> None:
        with self._lock:
            self._live.update(dict.fromkeys(ats, since))

    def _forget(self, queue: str, keys: Iterable[str]) -> list[Key]:
        """Stop renewing, even if the write then fails: else the copies would wait for ever."""
        ats = [_at(queue, key) for key in keys]
        with self._lock:
            for at in ats:
                self._live.pop(at, None)
        return ats

    def _renew(self) -> None:
        with self._lock:
            held = list(self._live)
        if held:
            self._renewed(held)

    def _renewed(self, held: list[Key]) -> list[Key]:
        """Lengthen the leases of *held*; those that are ours still."""
        since = Moment.now()
        ours = self._database.write(
            lambda connection: claims.renew(connection, held, owner=self._owner, lease=self._lease)
        )
        with self._lock:
            for at in self._live.keys() & ours:  # no more those that ended meanwhile
                self._live[at] = since
        return ours

    def _sweep_more(self) -> bool:
        return self.sweep(SWEEP_LIMIT) == SWEEP_LIMIT


def _at(queue: str, key: str) -> Key:
    return storable(queue), storable(key)
