"""What the commands of the group share: the way to Gemini, and how a webhook is shown."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from gemhooks import keys
from gemhooks.errors import Misconfigured
from gemhooks.gemini import Gemini
from gemhooks.gemini.webhooks import SigningSecret, Webhook, Webhooks
from gemhooks.settings import Settings
from gemhooks.webhooks.places import Held, SecretPlace
from gemhooks.webhooks.wishes import SUBSCRIBABLE

SECRET_FILE = "GEMINI_WEBHOOK_SECRET_FILE"  # noqa: S105 - the name of a setting
COLUMNS = ("id", "name", "state", "events", "uri", "secrets")
LIST_COLUMNS = ("id", "name", "state", "events", "uri")

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="as `gemhooks webhook list` shows")]
SaveTo = Annotated[
    str,
    typer.Option(
        "--save-to",
        help="file, or folder (end it with /), that receivers read; mode 0600",
        envvar=SECRET_FILE,
        show_default=False,
    ),
]
ShowSecret = Annotated[bool, typer.Option("--show-secret", help="print the new secret, once")]
ReceiverOption = Annotated[
    list[str] | None,
    typer.Option(
        "--receiver",
        help="URL of a receiver's admin port, several times for several; else"
        " GEMHOOKS_RECEIVERS, else the one here",
        show_default=False,
    ),
]


@contextmanager
def webhooks() -> Iterator[Webhooks]:
    """Gemini's webhooks, with the key and the address of the settings."""
    with opened(read_settings()) as api:
        yield api


def read_settings() -> Settings:
    """As everywhere, but the file of the secrets may be one that is yet to be made."""
    env = dict(os.environ)
    if not Path(env.get(SECRET_FILE, "")).exists():
        env.pop(SECRET_FILE, None)
    return Settings.from_env(env)


@contextmanager
def opened(settings: Settings) -> Iterator[Webhooks]:
    gemini = Gemini(
        settings.gemini_api_key.get_secret_value(),
        base_url=settings.gemini_base_url,
        timeout=settings.gemini_timeout,
    )
    try:
        yield gemini.webhooks
    finally:
        gemini.close()


def saving_place(save_to: str) -> SecretPlace:
    """Where the new secret goes, tried before there is one; Misconfigured if nowhere."""
    if not save_to:
        raise Misconfigured(
            "Gemini shows the secret once: say where it goes with --save-to FOLDER/"
            f" (or {SECRET_FILE}), or print it with --show-secret."
        )
    place = SecretPlace.at(save_to)
    place.check()
    return place


def held_secrets(settings: Settings) -> tuple[Held, ...]:
    """The secrets that this machine's settings name, without the secrets themselves."""
    if settings.webhook_secret_path:
        return SecretPlace(settings.webhook_secret_path).held()
    text = settings.webhook_secret.get_secret_value()
    return tuple(Held.of(each) for each in keys.read_secrets(text, None)) if text else ()


def row(webhook: Webhook) -> dict[str, Any]:
    """A webhook for people and scripts; a new secret is never in it."""
    fields = webhook.model_dump(mode="json", exclude={"new_signing_secret"})
    listed = ", ".join(map(described, webhook.signing_secrets))
    events = ", ".join(webhook.subscribed_events)
    if set(webhook.subscribed_events) == set(SUBSCRIBABLE):
        events = f"all {len(SUBSCRIBABLE)}"
    return {**fields, "events": events, "secrets": listed}


def described(secret: SigningSecret) -> str:
    if secret.expire_time is None:
        return secret.truncated_secret
    return f"{secret.truncated_secret} (until {secret.expire_time:%Y-%m-%d %H:%M}Z)"
