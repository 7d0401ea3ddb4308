"""What batches left: their rows, read one by one, and what to send again."""

from gemhooks.batches.rows import Outcome, Row, read_row
from gemhooks.batches.tally import Summary, Tally

__all__ = ["Outcome", "Row", "Summary", "Tally", "read_row"]
