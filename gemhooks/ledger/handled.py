"""What was handled and what is being handled, so that a copy runs no handler again."""

import secrets
import threading
from collections.abc import Iterable

from gemhooks.ledger import claims, retention
from gemhooks.ledger.claims import GRANTED, Key
from gemhooks.ledger.database import Database
from gemhooks.ledger.renewer import Renewer
from gemhooks.ledger.texts import storable
from gemhooks.messages import Claim, Claimed

LEASE = 30.0  # seconds; for so long the copies of a dead process's messages wait
SWEEP_LIMIT = 1000  # rows a step; more would keep other writers waiting


class DatabaseLedger:
    """The Ledger of all processes that share a database."""

    def __init__(self, database: Database, *, lease: float = LEASE) -> None:
        self._database = database
        self._lease = lease
        self._owner = secrets.token_hex(8)  # of this object: no process id is unique for long
        self._live: set[Key] = set()
        self._lock = threading.Lock()
        self._renewer = Renewer(self._renew, self._sweep_more, every=lease / 3)

    def claim(self, queue: str, key: str, *, redelivered: bool) -> Claimed:
        at = _at(queue, key)
        claimed = self._database.write(
            lambda connection: claims.take(
                connection, at, redelivered=redelivered, owner=self._owner, lease=self._lease
            )
        )
        if claimed.claim is Claim.GRANTED:
            self._keep([at])
        return claimed

    def claim_new(self, queue: str, *keys: str) -> list[Claimed | None]:
        ats = [_at(queue, key) for key in keys]
        answers = self._database.write(
            lambda connection: claims.take_new(
                connection, ats, owner=self._owner, lease=self._lease
            )
        )
        self._keep([at for at, answer in zip(ats, answers, strict=True) if answer == GRANTED])
        return answers

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

    def _keep(self, ats: Iterable[Key]) -> None:
        with self._lock:
            self._live.update(ats)

    def _forget(self, queue: str, keys: Iterable[str]) -> list[Key]:
        """Stop renewing, even if the write then fails: else the copies would wait for ever."""
        ats = [_at(queue, key) for key in keys]
        with self._lock:
            self._live.difference_update(ats)
        return ats

    def _renew(self) -> None:
        with self._lock:
            held = list(self._live)
        if held:
            self._database.write(
                lambda connection: claims.renew(
                    connection, held, owner=self._owner, lease=self._lease
                )
            )

    def _sweep_more(self) -> bool:
        return self.sweep(SWEEP_LIMIT) == SWEEP_LIMIT


def _at(queue: str, key: str) -> Key:
    return storable(queue), storable(key)
