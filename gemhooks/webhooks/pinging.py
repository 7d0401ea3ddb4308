"""A ping proven end to end: Gemini sent it, our receiver verified it, the queue confirmed it.

Nobody documents a ping's type, so what is looked for is an event of a type that is no event's,
signed with a secret of that webhook where we hold it, that came after we asked.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gemhooks.gemini.webhooks import ENABLED, Webhook, Webhooks
from gemhooks.webhooks.places import Held
from gemhooks.webhooks.receivers import Counts, Receivers, added

POLL = 0.2  # seconds between two looks
CLOCKS = ("too_old", "too_new")


@dataclass(frozen=True)
class Verdict:
    """Whether a ping arrived, and in words what was seen and what to do."""

    arrived: bool
    text: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Pinger:
    """Pings a webhook and looks at the receivers; *held* are the secrets we know of."""

    api: Webhooks
    receivers: Receivers
    held: Sequence[Held] = ()
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def ping(self, webhook: Webhook, *, timeout: float) -> Verdict:
        """Raises Unavailable where a receiver does not answer, ours for what Gemini answers."""
        before = self.receivers.look()
        self.api.ping(webhook.id)
        began = self.clock()
        while True:
            seen = added(before, self.receivers.look())
            took = self.clock() - began
            if self._is_it(seen, webhook):
                return Verdict(True, arrived(seen, self.held), took)  # noqa: FBT003 - its name says
            if took >= timeout:
                return Verdict(False, missing(seen, webhook), took)  # noqa: FBT003 - as above
            self.sleep(POLL)

    def _is_it(self, seen: Counts, webhook: Webhook) -> bool:
        theirs = {each.truncated_secret for each in webhook.signing_secrets}
        known = {each.fingerprint for each in self.held}
        ours = {each.fingerprint for each in self.held if each.truncated in theirs}
        if not seen.unknown:
            return False
        # A secret that we know nothing of says nothing; one of another webhook says no.
        return any(key in ours or key not in known for key in seen.verified) or not seen.verified


def arrived(seen: Counts, held: Sequence[Held]) -> str:
    names = {each.fingerprint: each.truncated for each in held}
    keys = ", ".join(f"{key} {names.get(key, '')}".rstrip() for key in sorted(seen.verified))
    signed = f"; signed with {keys}" if keys else ""
    several = f" ({seen.unknown:.0f} of a ping's kind came)" if seen.unknown > 1 else ""
    return f"it arrived, was verified, and the queue confirmed it{several}{signed}"


def missing(seen: Counts, webhook: Webhook) -> str:
    """Why it was not seen, as far as the counters tell, and what to do."""
    if clocks := sum(seen.refused.get(reason, 0) for reason in CLOCKS):
        return f"{clocks:.0f} requests were refused for their time: set the receiver's clock (NTP)"
    if seen.refused:
        reasons = ", ".join(f"{count:.0f} {reason}" for reason, count in seen.refused.items())
        return (
            f"requests were refused meanwhile ({reasons}): the receiver does not hold the secret"
            f" of this webhook; `gemhooks webhook rotate {webhook.id}` makes a new one"
        )
    if seen.unpublished:
        return "it was verified, but the queue did not confirm: see to the broker"
    if webhook.state != ENABLED:
        return f"nothing came: the webhook is {webhook.state}; `gemhooks webhook enable` first"
    if seen.known:
        return f"{seen.known:.0f} other events came, so the way is open, but no ping was seen"
    return (
        f"nothing came: does {webhook.uri} lead to this receiver (DNS, certificate, proxy, path)?"
    )
