"""Where fetched results lie: a folder, or any place fsspec has a driver for."""

from gemhooks.results.partial import Partial
from gemhooks.results.store import ResultsStore, Stored, safe_id

__all__ = ["Partial", "ResultsStore", "Stored", "safe_id"]
