"""A webhook made as it was declared, and kept so: decided first, then done."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gemhooks.errors import Misconfigured, Retry
from gemhooks.gemini.webhooks import ENABLED, Webhook, Webhooks
from gemhooks.webhooks import drift
from gemhooks.webhooks.desired import Desired, find
from gemhooks.webhooks.drift import Drift, Kind
from gemhooks.webhooks.places import Held, SecretPlace
from gemhooks.webhooks.receivers import Receivers
from gemhooks.webhooks.reviving import Revivals


@dataclass(frozen=True)
class Ensured:
    """What was found, what was done about it, and what is left to a person or a later time."""

    label: str
    webhook: str  # id; empty while there is none
    state: str
    found: tuple[Drift, ...]
    done: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def is_as_declared(self) -> bool:
        return not self.left


@dataclass(frozen=True)
class Ensurer:
    """*held_at* tells which secrets we hold at a declared place; None where nobody can say."""

    api: Webhooks
    receivers: Receivers
    revivals: Revivals
    held_at: Callable[[str], Sequence[Held] | None]

    def check(self, desired: Desired, listed: Sequence[Webhook]) -> Ensured:
        """What differs; nothing is changed."""
        webhook = find(desired, listed)
        found = tuple(self._drift(desired, webhook))
        left = tuple(_told(each) for each in found if not each.is_note)
        return Ensured(desired.label, _id(webhook), _state(webhook), found, left=left)

    def ensure(self, desired: Desired, listed: Sequence[Webhook]) -> Ensured:
        """Mend what differs, as far as it is ours to mend."""
        webhook = find(desired, listed)
        if webhook is None:
            return self._create(desired)
        if webhook.state == ENABLED:
            self.revivals.seen_enabled(webhook.id)
        found = tuple(self._drift(desired, webhook))
        left = {each.kind: why for each in found if (why := self._refusal(each, webhook))}
        mended = [each for each in found if each.field and each.kind not in left]
        webhook = self._update(webhook, mended)
        done = tuple(f"{each.text}: mended" for each in mended)
        return Ensured(desired.label, webhook.id, webhook.state, found, done, tuple(left.values()))

    def _drift(self, desired: Desired, webhook: Webhook | None) -> Iterator[Drift]:
        yield from drift.of_state(desired, webhook)
        held = self.held_at(desired.save_to)
        if webhook is not None and held is not None:
            yield from drift.of_secrets(webhook, held)

    def _refusal(self, found: Drift, webhook: Webhook) -> str:
        """Why a difference is not mended now; empty where it is, or needs no mending."""
        if found.is_note:
            return ""
        if found.field is None:
            return _told(found)
        if found.kind not in (Kind.GAVE_UP, Kind.DISABLED):
            return ""
        if unready := self.receivers.unready():
            return f"{found.text}, and stays so while our receiver is not ready: {unready}"
        why = self.revivals.refusal(webhook.id) if found.kind is Kind.GAVE_UP else ""
        return f"{found.text}: {why}" if why else ""

    def _update(self, webhook: Webhook, mended: Sequence[Drift]) -> Webhook:
        fields = dict(each.field for each in mended if each.field)
        if not fields:
            return webhook
        if any(each.kind is Kind.GAVE_UP for each in mended):
            self.revivals.revived(webhook.id)  # first: a crash must not make it forget
        return self.api.update(webhook.id, **fields)

    def _create(self, desired: Desired) -> Ensured:
        if not desired.save_to:
            raise Misconfigured(
                f"{desired.label} does not exist, and its secret would have no place:"
                " say save_to (or --save-to)."
            )
        place = SecretPlace.at(desired.save_to)
        place.check()
        webhook = self.api.create(uri=desired.uri, events=desired.events, name=desired.name)
        self._save(webhook, place)
        if not desired.enabled:
            webhook = self.api.update(webhook.id, state="disabled")
        found = tuple(drift.of_state(desired, None))
        done = (f"created; its secret is in {place.path}",)
        return Ensured(desired.label, webhook.id, webhook.state, found, done)

    def _save(self, webhook: Webhook, place: SecretPlace) -> None:
        remedy = f"`gemhooks webhook rotate {webhook.id} --save-to {place.path}`"
        if webhook.new_signing_secret is None:
            raise Retry(f"webhook {webhook.id} was created, but came without its secret: {remedy}")
        try:
            place.save(webhook.new_signing_secret.get_secret_value(), webhook.id)
        except (OSError, Misconfigured) as error:
            raise Retry(
                f"webhook {webhook.id} was created, but its secret is not saved ({error}): {remedy}"
            ) from None


def _told(found: Drift) -> str:
    return f"{found.text}: {found.remedy}" if found.remedy else found.text


def _id(webhook: Webhook | None) -> str:
    return webhook.id if webhook else ""


def _state(webhook: Webhook | None) -> str:
    return webhook.state if webhook else ""
