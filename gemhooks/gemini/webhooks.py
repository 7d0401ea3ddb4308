"""Webhooks as Gemini keeps them: all seven methods of the reference.

What is safe to repeat is tried again when Gemini asks for it; creating and rotating never are.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from gemhooks.errors import Gone, Misconfigured, NotYet, Retry
from gemhooks.gemini.client import Connection
from gemhooks.gemini.errors import MALFORMED

ENABLED, DISABLED = "enabled", "disabled"
FAILED = "disabled_due_to_failed_deliveries"
PREFIX = "webhooks/"  # older answers have the resource name where newer ones have the bare id
PAGE = 1000  # the most that the API gives at once
MOST_PAGES = 1000
PAUSES = (0.5, 1.0, 2.0)  # seconds before each repetition; longer where Gemini says so
LONGEST_PAUSE = 30.0

T = TypeVar("T")
_ANY_TIME = TypeAdapter(datetime)


class Revocation(StrEnum):
    """What becomes of the older secrets when a new one is made."""

    AFTER_24_HOURS = "revoke_previous_secrets_after_h24"
    IMMEDIATELY = "revoke_previous_secrets_immediately"


def _time(value: Any) -> datetime | None:
    """RFC 3339 or Unix seconds, always aware; what is neither counts as absent."""
    try:
        found = _ANY_TIME.validate_python(value)
    except ValidationError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


Time = Annotated[datetime | None, BeforeValidator(_time)]


class SigningSecret(BaseModel, frozen=True):
    """A secret that Gemini may sign with: its last four characters, and its end if it has one."""

    truncated_secret: str = ""
    expire_time: Time = None

    def is_alive(self, now: datetime) -> bool:
        return self.expire_time is None or self.expire_time > now


class Webhook(BaseModel, frozen=True):
    """A webhook. *new_signing_secret* is there only in the answer that created it."""

    id: str = Field(min_length=1)
    uri: str = ""
    subscribed_events: tuple[str, ...] = ()
    state: str = ENABLED
    name: str = ""
    signing_secrets: tuple[SigningSecret, ...] = ()
    new_signing_secret: SecretStr | None = None
    create_time: Time = None
    update_time: Time = None

    @model_validator(mode="before")
    @classmethod
    def _normal(cls, given: Any) -> Any:
        """An id without its prefix, from whichever field has it; null is absent."""
        if not isinstance(given, dict):
            return given
        known = {field: value for field, value in given.items() if value is not None}
        name = str(known.get("name", ""))
        if name.startswith(PREFIX):
            known = {"id": name, **known, "name": ""}
        return {**known, "id": str(known.get("id", "")).removeprefix(PREFIX)}


def webhook_id(text: str) -> str:
    """The bare id in ``abc`` or ``webhooks/abc``; Misconfigured for what can be neither."""
    bare = text.strip().removeprefix(PREFIX)
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,200}", bare):
        raise Misconfigured(
            f"{text!r} is no webhook's id; `gemhooks webhook list` shows those there are."
        )
    return bare


class Webhooks:
    """``client.webhooks`` of one project.

    Every method raises Gone for a webhook that does not exist, Retry where Gemini cannot be
    reached (after some patience, where repeating is harmless) and Refused where it refuses.
    """

    def __init__(
        self, connection: Connection, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._connection = connection
        self._sleep = sleep

    def create(self, *, uri: str, events: tuple[str, ...], name: str = "") -> Webhook:
        """Make one; sent once. After Retry it may exist all the same, with a secret unseen."""
        wanted = {"uri": uri, "subscribed_events": list(events)} | ({"name": name} if name else {})
        return _webhook(self._call("create", **wanted))

    def list(self, *, page_size: int = PAGE) -> tuple[Webhook, ...]:
        """All of them, to the last page."""
        return tuple(_webhook(each) for page in self._pages(page_size) for each in page)

    def _pages(self, size: int) -> Iterator[Sequence[Any]]:
        token, seen = "", set[str]()
        while token not in seen and len(seen) < MOST_PAGES:
            seen.add(token)
            page = self._page(size, token)
            yield page.get("webhooks") or []
            token = str(page.get("next_page_token") or "")
            if not token:
                return
        raise Retry("Gemini's list of webhooks does not end")

    def _page(self, size: int, token: str) -> dict[str, Any]:
        wanted: dict[str, Any] = {"page_size": size} | ({"page_token": token} if token else {})
        return self._patiently(lambda: self._call("list", **wanted))

    def get(self, webhook: str) -> Webhook:
        return _webhook(self._patiently(lambda: self._call("get", id=webhook)))

    def update(self, webhook: str, **fields: Any) -> Webhook:
        """Change *uri*, *subscribed_events*, *name* or *state*; what is not named stays."""
        wanted = {"id": webhook, "update_mask": ",".join(sorted(fields)), **fields}
        return _webhook(self._patiently(lambda: self._call("update", **wanted)))

    def delete(self, webhook: str) -> None:
        self._call("delete", id=webhook)  # repeated, it would say that there is none

    def ping(self, webhook: str) -> None:
        """Ask Gemini to send a ping. That it answers does not mean that one arrived."""
        self._call("ping", id=webhook)

    def rotate(self, webhook: str, *, revocation: Revocation = Revocation.AFTER_24_HOURS) -> str:
        """Make a new secret and return it; sent once. After Retry it may be made and lost."""
        answer = self._call(
            "rotate_signing_secret", id=webhook, revocation_behavior=revocation.value
        )
        secret = answer.get("secret")
        if not isinstance(secret, str) or not secret:
            raise Retry(MALFORMED)
        return secret

    def _call(self, method: str, **wanted: Any) -> dict[str, Any]:
        try:
            raw = self._connection.call(
                lambda client, timeout: getattr(client.webhooks.with_streaming_response, method)(
                    timeout=timeout, **wanted
                )
            )
        except NotYet:
            raise Gone(f"Gemini knows no webhook {wanted.get('id', '')}".rstrip()) from None
        try:
            answer = orjson.loads(raw or b"{}")
        except (orjson.JSONDecodeError, RecursionError):
            raise Retry(MALFORMED) from None
        if not isinstance(answer, dict):
            raise Retry(MALFORMED)
        return answer

    def _patiently(self, call: Callable[[], T]) -> T:
        for pause in PAUSES:
            try:
                return call()
            except Retry as error:
                self._sleep(min(max(pause, error.at_least), LONGEST_PAUSE))
        return call()


def _webhook(answer: Any) -> Webhook:
    try:
        return Webhook.model_validate(answer)
    except ValidationError:
        raise Retry(MALFORMED) from None  # its text would show a new secret
