"""Gemini's side: the key, the API, the clocks, the webhooks and their secrets."""

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from gemhooks.asking import NO_ANSWER, asked
from gemhooks.doctor.findings import Finding, green, red, skipped, yellow
from gemhooks.errors import Unavailable
from gemhooks.gemini.webhooks import ENABLED, FAILED, Webhook, Webhooks
from gemhooks.webhooks import drift
from gemhooks.webhooks.drift import Kind
from gemhooks.webhooks.pinging import Pinger
from gemhooks.webhooks.places import Held
from gemhooks.webhooks.receivers import Receivers
from gemhooks.webhooks.wishes import SUBSCRIBABLE

GOOGLE = "https://generativelanguage.googleapis.com"
TIMEOUT = 10.0  # seconds
FAST_OR_SLOW = 30.0  # seconds of skew worth a look; Date has whole seconds
TOLERANCE = 240.0  # seconds; at 300 the receiver refuses


def look_at_clock(base_url: str | None) -> Iterator[Finding]:
    """Ours against the Date of any answer of the API; no key is sent."""
    request = urllib.request.Request(base_url or GOOGLE, method="HEAD")  # noqa: S310 - a setting
    began = time.time()
    date = _date_of(request)
    ended = time.time()
    if not date:
        yield skipped("clock", "the API's answer has no date")
        return
    theirs = parsedate_to_datetime(date).timestamp()
    skew = max(began - theirs - 1.0, theirs - ended, 0.0)
    text = f"this machine's clock is {skew:.0f} s off Gemini's"
    if skew > TOLERANCE:
        yield red("clock", text, "set it (NTP): webhooks older or newer than 300 s are refused")
    elif skew > FAST_OR_SLOW:
        yield yellow("clock", text, "set it (NTP) before it comes to 300 s")
    else:
        yield green("clock", "within a second of Gemini's" if skew < 1 else text)


def _date_of(request: urllib.request.Request) -> str:
    try:
        with asked(request, timeout=TIMEOUT) as answer:
            return str(answer.headers.get("Date", ""))
    except urllib.error.HTTPError as error:  # any answer has a date
        error.close()
        return str(error.headers.get("Date", ""))
    except NO_ANSWER as error:
        raise Unavailable(f"the API does not answer: {getattr(error, 'reason', error)}") from None


@dataclass
class WebhookChecks:
    """Three checks that build on each other; *wanted* is a webhook's id, or empty."""

    api: Callable[[], Webhooks]
    receivers: Receivers
    held: Callable[[], Sequence[Held]]
    wanted: str = ""
    ours: tuple[Webhook, ...] | None = None  # None until the API has answered

    def look_at_api(self) -> Iterator[Finding]:
        """The key is good and the API answers; remembers which webhooks are ours."""
        listed = self.api().list()
        yield green("api", f"it answers, and takes the key; {len(listed)} webhooks")
        self.ours = tuple(self._ours(listed))

    def _ours(self, listed: Sequence[Webhook]) -> Iterator[Webhook]:
        known = {each.truncated for each in self.held()}
        for hook in listed:
            secrets = {each.truncated_secret for each in hook.signing_secrets}
            if hook.id == self.wanted or (
                not self.wanted and (secrets & known or len(listed) == 1)
            ):
                yield hook

    def look_at_webhooks(self) -> Iterator[Finding]:
        if self.ours is None:
            yield skipped("webhook", "the API could not be asked")
            return
        if not self.ours:
            yield red(
                "webhook",
                "none of the project's webhooks signs with a secret that we hold",
                "gemhooks webhook create --uri https://... --save-to FOLDER/, or rotate one",
            )
        for hook in self.ours:
            yield _state(hook)
            yield _events(hook)
            yield from self._secrets(hook)

    def _secrets(self, hook: Webhook) -> Iterator[Finding]:
        found = list(drift.of_secrets(hook, self.held()))
        for each in found:
            bad = each.kind is Kind.SECRET_MISSING
            wait = each.remedy or "wait, or rotate again"
            yield (red if bad else yellow)("secrets", each.text, wait)
        if not found:
            yield green("secrets", "we hold all that Gemini lists, and no other")

    def look_at_ping(self, timeout: float) -> Iterator[Finding]:
        if not self.ours:
            yield skipped("ping", "no webhook to ping")
        for hook in self.ours or ():
            verdict = Pinger(self.api(), self.receivers, self.held()).ping(hook, timeout=timeout)
            if verdict.arrived:
                yield green("ping", f"{hook.id}: {verdict.text}, in {verdict.seconds:.1f} s")
            else:
                remedy = f"gemhooks webhook ping {hook.id} --wait"
                yield red("ping", f"{hook.id}: {verdict.text}", remedy)


def _state(hook: Webhook) -> Finding:
    text = f"{hook.id} is {hook.state}, calls {hook.uri}"
    if hook.state == ENABLED:
        return green("webhook", text)
    why = "once deliveries work again: " if hook.state == FAILED else ""
    return red("webhook", text, f"{why}gemhooks webhook enable {hook.id}")


def _events(hook: Webhook) -> Finding:
    missing = [name for name in SUBSCRIBABLE if name not in hook.subscribed_events]
    if not missing:
        return green("events", f"{hook.id} sends all {len(SUBSCRIBABLE)}")
    remedy = f"if they are wanted: gemhooks webhook update {hook.id} -e all"
    return yellow("events", f"{hook.id} does not send {', '.join(missing)}", remedy)
