"""The ledger that is off."""

from gemhooks.messages import Claim, Claimed


class NullLedger:
    """Remembers nothing: every copy is handled, so handlers must bear that."""

    def claim(self, queue: str, key: str, *, redelivered: bool) -> Claimed:
        return Claimed(Claim.UNKNOWN if redelivered else Claim.GRANTED)

    def claim_new(self, queue: str, *keys: str) -> list[Claimed | None]:
        return [Claimed(Claim.GRANTED)] * len(keys)

    def holds(self, queue: str, key: str) -> bool:
        return True

    def done(self, queue: str, *keys: str) -> None:
        """Nothing to mark."""

    def release(self, queue: str, *keys: str, ended: bool = True) -> None:
        """Nothing to free."""
