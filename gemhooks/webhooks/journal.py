"""How far a rotation has come, beside the secrets, so that a crash between two steps is no riddle.

It holds fingerprints and last characters, never a secret.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ValidationError

from gemhooks.errors import Misconfigured
from gemhooks.gemini.webhooks import Revocation, SigningSecret, Webhook
from gemhooks.webhooks.places import Held, SecretPlace, sync_folder, write_privately


class Step(StrEnum):
    """What was certainly done; what comes next may have been begun."""

    ASKING = "asking"  # next: ask Gemini for a new secret, and save it
    SAVED = "saved"  # next: see that the new one verifies
    VERIFIED = "verified"  # next: remove the old ones, once Gemini's listing says they are over


class Journal(BaseModel, frozen=True):
    """One rotation of one webhook."""

    webhook: str
    step: Step
    began: datetime
    revocation: Revocation
    listed: tuple[SigningSecret, ...]  # by Gemini, before
    old: tuple[str, ...]  # fingerprints of this webhook's secrets that we held before
    others: tuple[str, ...]  # fingerprints of what else lay there: of other webhooks
    new: str = ""  # fingerprint
    truncated: str = ""

    @classmethod
    def begin(cls, webhook: Webhook, held: tuple[Held, ...], revocation: Revocation) -> "Journal":
        theirs = {each.truncated_secret for each in webhook.signing_secrets}
        old = {each.fingerprint for each in held if is_of(each, webhook, theirs)}
        return cls(
            webhook=webhook.id,
            step=Step.ASKING,
            began=datetime.now(UTC),
            revocation=revocation,
            listed=webhook.signing_secrets,
            old=tuple(sorted(old)),
            others=tuple(sorted({each.fingerprint for each in held} - old)),
        )

    def saved(self, held: Held) -> "Journal":
        new = {"step": Step.SAVED, "new": held.fingerprint, "truncated": held.truncated}
        return self.model_copy(update=new)

    def verified(self) -> "Journal":
        return self.model_copy(update={"step": Step.VERIFIED})


def is_of(held: Held, webhook: Webhook, truncated: set[str]) -> bool:
    """A secret belongs to the webhook that lists its end, or for which we saved it."""
    return held.truncated in truncated or (
        held.path is not None and held.path.name.startswith(f"{webhook.id}-")
    )


class JournalFile:
    """``.rotation-ID.json`` beside the secrets; receivers skip names with a leading dot."""

    def __init__(self, place: SecretPlace, webhook: str) -> None:
        prefix = "" if place.is_folder else f"{place.path.name}."
        self.path: Path = place.folder / f".{prefix}rotation-{webhook}.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One rotation at a time beside these secrets; Misconfigured while another is at it."""
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise Misconfigured(f"another process rotates in {self.path.parent} now.") from None
        finally:
            os.close(folder)

    def read(self) -> Journal | None:
        """Raises Misconfigured for a file that is not one of ours."""
        try:
            return Journal.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Misconfigured(f"{self.path} can't be read: {error.strerror}.") from None
        except ValidationError:
            raise Misconfigured(
                f"{self.path} is no journal of a rotation: remove it, then rotate."
            ) from None

    def write(self, journal: Journal) -> Journal:
        write_privately(self.path, journal.model_dump_json(indent=2) + "\n")
        return journal

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        sync_folder(self.path.parent)
