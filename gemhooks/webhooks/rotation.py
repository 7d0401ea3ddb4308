"""A new signing secret without a lost event.

Gemini shows a new secret once, and nobody documents which secret signs from then on. So the new
one is saved where receivers read it before anything else is done, the old ones stay until their
real end, and each step is written down before the next: see :mod:`gemhooks.webhooks.journal`.
A secret that a crash took away before it was saved is replaced by rotating again; refused
deliveries are sent again by Gemini for 24 hours.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from gemhooks.errors import Misconfigured, Reject, Retry, Unavailable
from gemhooks.gemini.webhooks import Revocation, Webhook, Webhooks
from gemhooks.webhooks.journal import Journal, JournalFile, Step
from gemhooks.webhooks.places import Held, SecretPlace
from gemhooks.webhooks.receivers import Counts, Receivers, added

POLL = 0.2  # seconds between two looks at the receivers
PING_EVERY = 5.0  # seconds; a ping can get lost
NEVER = datetime.max.replace(tzinfo=UTC)  # Gemini names no end


class Moment(StrEnum):
    """What has just happened, for a person who watches (and for a test that kills us there)."""

    BEGUN = "written down; asking Gemini for a new secret"
    MADE = "Gemini made a new secret"
    SAVED = "saved where receivers read it"
    NOTED = "written down; waiting until it verifies"
    PROVEN = "the new secret verified a delivery"
    DONE = "written down"
    LOST = "the secret of the interrupted rotation was never saved: rotating again"


def _silent(_: Moment) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Report:
    """How a rotation stands: *old_until* is None when no old secret is left, or none is known."""

    webhook: str
    secret: str
    fingerprint: str
    verified: bool
    refused: int
    old_until: datetime | None
    text: str


@dataclass(frozen=True)
class Rotation:
    """Rotates the secret of one webhook, whose secrets lie in *place*."""

    api: Webhooks
    place: SecretPlace
    receivers: Receivers
    webhook: str
    timeout: float = 60.0  # seconds until a delivery must have been verified
    tell: Callable[[Moment], None] = _silent
    file: JournalFile = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "file", JournalFile(self.place, self.webhook))

    def begin(self, revocation: Revocation = Revocation.AFTER_24_HOURS) -> Report:
        """Raises Misconfigured while another rotation of the webhook is under way."""
        self.place.check()
        with self.file.locked():
            journal = self.file.read()
            if journal and journal.step is not Step.VERIFIED:
                raise Misconfigured(
                    f"a rotation of {self.webhook} is under way since"
                    f" {journal.began:%Y-%m-%d %H:%M}Z: go on with --resume."
                )
            hook = self.api.get(self.webhook)
            return self._ask(self.file.write(Journal.begin(hook, self.place.held(), revocation)))

    def resume(self) -> Report | None:
        """Go on where the journal says; None if there is nothing to go on with."""
        self.place.check()
        with self.file.locked():
            self.place.sweep()
            journal = self.file.read()
            return self._go_on(journal) if journal else None

    def _go_on(self, journal: Journal) -> Report:
        if journal.step is Step.VERIFIED:
            return self._finish(journal, refused=0)
        if journal.step is Step.SAVED and self._holds(journal.new):
            return self._prove(journal)
        return self._find(journal)

    def _find(self, journal: Journal) -> Report:
        """After a crash that may have come before the secret was saved, or after."""
        known = {*journal.old, *journal.others}
        listed = {each.truncated_secret for each in self.api.get(self.webhook).signing_secrets}
        for held in self.place.held():
            if held.fingerprint not in known and held.truncated in listed:
                return self._prove(self.file.write(journal.saved(held)))
        self.tell(Moment.LOST)
        return self._ask(journal)

    def _ask(self, journal: Journal) -> Report:
        before = self._look()
        self.tell(Moment.BEGUN)
        secret = self._rotate(journal)
        self.tell(Moment.MADE)
        held = self._save(secret)
        self.tell(Moment.SAVED)
        return self._prove(self.file.write(journal.saved(held)), before)

    def _rotate(self, journal: Journal) -> str:
        try:
            return self.api.rotate(self.webhook, revocation=journal.revocation)
        except Reject:
            self.file.remove()  # certainly nothing happened
            raise
        except Retry as error:
            raise Retry(f"{error}; if a secret was made, it is lost: go on with --resume") from None

    def _save(self, secret: str) -> Held:
        try:
            return self.place.save(secret, self.webhook)
        except OSError as error:
            raise Retry(
                f"the new secret could not be saved ({error.strerror}): mend that, then go on with"
                " --resume, which rotates again"
            ) from None

    def _prove(self, journal: Journal, before: tuple[Counts, ...] = ()) -> Report:
        self.tell(Moment.NOTED)
        try:
            before = before or self.receivers.look()
            proof = self._wait(journal.new)
            refused = round(sum(added(before, self.receivers.look()).refused.values()))
        except (Unavailable, Retry, Reject) as error:  # the secret is safe; only the proof is not
            proof, refused = str(error), 0
        if proof:
            return self._unproven(journal, refused, proof)
        self.tell(Moment.PROVEN)
        return self._finish(self.file.write(journal.verified()), refused)

    def _wait(self, new: str) -> str:
        """Empty as soon as all receivers hold *new* and one delivery was verified with it."""
        began = time.monotonic()
        pinged = began - PING_EVERY
        while True:
            seen = self.receivers.look()  # which makes them look at the files, too
            loaded = all(new in each.keys for each in seen)
            if loaded and any(each.verified.get(new) for each in seen):
                return ""
            if time.monotonic() - began > self.timeout:
                return self._doubt(loaded=loaded)
            if loaded and time.monotonic() - pinged > PING_EVERY:
                pinged = time.monotonic()
                self.api.ping(self.webhook)
            time.sleep(POLL)

    def _doubt(self, *, loaded: bool) -> str:
        if not loaded:
            return f"not every receiver reads {self.place.path} (GEMINI_WEBHOOK_SECRET_FILE)"
        return "receivers hold the new secret, but no delivery signed with it came"

    def _finish(self, journal: Journal, refused: int) -> Report:
        """Remove the old ones, each once Gemini no longer lists it as living."""
        self.tell(Moment.DONE)
        hook = self.api.get(self.webhook)
        if _old_until(journal, hook):
            return self._report(
                journal, refused, "the new secret verifies; the old one stays", hook
            )
        if not self._holds(journal.new):
            raise Misconfigured(f"{self.place.path} lost the new secret: rotate again.")
        for fingerprint in journal.old:
            self.place.forget(fingerprint)
        self.file.remove()
        return self._report(journal, refused, "the new secret verifies; no old one is left", hook)

    def _report(self, journal: Journal, refused: int, text: str, hook: Webhook) -> Report:
        until = _old_until(journal, hook)
        if until:
            text += f" until {_named(until)}; then `--resume` removes it"
        return Report(self.webhook, journal.truncated, journal.new, True, refused, until, text)  # noqa: FBT003 - verified

    def _unproven(self, journal: Journal, refused: int, why: str) -> Report:
        text = f"saved, but not proven yet: {why}; try again: --resume"
        return Report(self.webhook, journal.truncated, journal.new, False, refused, None, text)  # noqa: FBT003 - not verified

    def _holds(self, fingerprint: str) -> bool:
        return any(each.fingerprint == fingerprint for each in self.place.held())

    def _look(self) -> tuple[Counts, ...]:
        with suppress(Unavailable):  # said later, when it matters
            return self.receivers.look()
        return ()


def _old_until(journal: Journal, hook: Webhook) -> datetime | None:
    """When the last of the older secrets ends; None once none lives."""
    now = datetime.now(UTC)
    return max(
        (
            each.expire_time or NEVER
            for each in hook.signing_secrets
            if each.truncated_secret != journal.truncated and each.is_alive(now)
        ),
        default=None,
    )


def _named(until: datetime) -> str:
    return "Gemini ends it" if until == NEVER else f"{until:%Y-%m-%d %H:%M}Z"
