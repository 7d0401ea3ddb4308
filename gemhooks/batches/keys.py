"""Which keys were seen, in bounded memory: a database of its own that nobody else sees."""

from collections.abc import Iterable

TOGETHER = 1000  # keys per insert
CACHE = 4 << 10  # KiB of memory; what is more goes to a temporary file


class Keys:
    """A set of strings of any number, and how often one came again."""

    def __init__(self) -> None:
        import sqlite3  # noqa: PLC0415 - 1 MiB, for batches only

        # An empty name: a file that SQLite makes, and that is gone when we are.
        self._database = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._database.execute(f"PRAGMA cache_size = -{CACHE}")
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute("CREATE TABLE seen (key TEXT PRIMARY KEY) WITHOUT ROWID")
        self._waiting: list[tuple[str]] = []
        self._added = 0

    def add(self, key: str) -> None:
        self._waiting.append((key,))
        if len(self._waiting) >= TOGETHER:
            self._flush()

    def add_all(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.add(key)

    @property
    def distinct(self) -> int:
        self._flush()
        return int(self._database.execute("SELECT count(*) FROM seen").fetchone()[0])

    @property
    def again(self) -> int:
        """How many were added of those that were there already."""
        distinct = self.distinct
        return self._added - distinct

    def __contains__(self, key: str) -> bool:
        self._flush()
        found = self._database.execute("SELECT 1 FROM seen WHERE key = ?", (key,)).fetchone()
        return found is not None

    def close(self) -> None:
        self._database.close()

    def _flush(self) -> None:
        self._added += len(self._waiting)
        self._database.executemany("INSERT OR IGNORE INTO seen VALUES (?)", self._waiting)
        self._waiting.clear()
