"""Signed requests of our own, as Gemini would make them."""

import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import typer

from gemhooks import signing
from gemhooks.asking import NO_ANSWER, asked
from gemhooks.errors import Misconfigured, Unavailable
from gemhooks.settings import Settings

TIMEOUT = 15.0  # seconds


def key_of(secret: str = "") -> bytes:
    """The key in *secret*, or in the first of the settings' secrets; Misconfigured without one."""
    secret = secret or Settings.from_env().webhook_secret.get_secret_value()
    entries = secret.replace(",", " ").split()
    if not entries:
        raise Misconfigured("set GEMINI_WEBHOOK_SECRET, so that the event can be signed.")
    try:
        return signing.decode_secret(entries[0])
    except Misconfigured as problem:  # what a receiver says to it is for the receiver to show
        key = signing.decode_any_secret(entries[0])
        typer.echo(f"note: {problem}", err=True)
        return key


def headers(webhook_id: str, body: bytes, key: bytes) -> dict[str, str]:
    now = str(int(time.time()))
    return {
        "content-type": "application/json",
        "webhook-id": webhook_id,
        "webhook-timestamp": now,
        "webhook-signature": signing.sign_v1(webhook_id, now, body, key),
    }


def check(url: str) -> str:
    """*url* itself; Misconfigured for what nothing can be posted to."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # half an IPv6 address, a port that is no number
        is_one = False
    if not is_one:
        raise Misconfigured(f"{url} is not an http or https URL.")
    return url


def post(url: str, body: bytes, given: dict[str, str]) -> int:
    """The status that *url* answers, a redirect's too; Unavailable where nothing does."""
    return ask(url, body, given)[0]


def ask(
    url: str, body: bytes | None = None, given: dict[str, str] | None = None
) -> tuple[int, bytes]:
    """Status and body of a POST, or of a GET where there is no *body*."""
    request = urllib.request.Request(check(url), body, given or {})  # noqa: S310 - checked
    try:
        return _answer(request)
    except NO_ANSWER as error:
        raise Unavailable(f"nothing answers at {url}: {error}.") from None


def _answer(request: urllib.request.Request) -> tuple[int, bytes]:
    try:
        answer = asked(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as refusal:  # a redirect, too
        with refusal:
            return refusal.code, refusal.read()
    with answer:
        return answer.status, answer.read()
