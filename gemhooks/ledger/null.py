"""The ledger that is off."""

from gemhooks.messages import Claim, Claimed


class NullLedger:
    """Remembers nothing: every copy is handled, so handlers must bear that."""

    def claim(self, queue: str, key: str, *, redelivered: bool) -> Claimed:
        return Claimed(Claim.UNKNOWN if redelivered else Claim.GRANTED)

    def done(self, queue: str, key: str) -> None:
        """Nothing to mark."""

    def release(self, queue: str, key: str, *, ended: bool = True) -> None:
        """Nothing to free."""
