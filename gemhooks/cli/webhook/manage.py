"""Create, list, get, update, enable, disable, delete."""

from typing import Annotated, Any

import typer

from gemhooks.cli.tables import Format, FormatOption, show, show_one
from gemhooks.cli.webhook.shared import (
    COLUMNS,
    LIST_COLUMNS,
    IdArgument,
    SaveTo,
    ShowSecret,
    row,
    saving_place,
    webhooks,
)
from gemhooks.errors import Misconfigured, Retry
from gemhooks.gemini.webhooks import DISABLED, ENABLED, Webhook, webhook_id
from gemhooks.webhooks import wishes
from gemhooks.webhooks.places import SecretPlace

UriOption = Annotated[str, typer.Option(help="https://your-host/webhooks/gemini")]
EventsOption = Annotated[
    list[str] | None,
    typer.Option("--event", "-e", help="a type, several with commas or -e -e, or all"),
]
NameOption = Annotated[str, typer.Option(help="for people")]


def create(
    *,
    uri: UriOption,
    event: EventsOption = None,
    name: NameOption = "",
    save_to: SaveTo = "",
    show_secret: ShowSecret = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Create a webhook; its secret is saved or shown now or never."""
    events, uri = wishes.check_events(event or [wishes.ALL]), wishes.check_uri(uri)
    place = None if show_secret and not save_to else saving_place(save_to)
    with webhooks() as api:
        try:
            webhook = api.create(uri=uri, events=events, name=name)
        except Retry as error:
            raise Retry(f"{error}; see with `gemhooks webhook list` if it exists") from None
    found = {**row(webhook), **secret_of(webhook, place, show_secret=show_secret)}
    show_one(found, (*COLUMNS, "saved_to", "new_signing_secret"), form)


def secret_of(webhook: Webhook, place: SecretPlace | None, *, show_secret: bool) -> dict[str, str]:
    """What is said of the new secret, once it is saved."""
    if webhook.new_signing_secret is None:
        raise Retry(f"webhook {webhook.id} exists, but came without its secret: rotate it")
    secret = webhook.new_signing_secret.get_secret_value()
    said = {"new_signing_secret": secret} if show_secret else {}
    return said | ({"saved_to": saved(place, secret, webhook.id)} if place else {})


def saved(place: SecretPlace, secret: str, webhook: str) -> str:
    try:
        return str(place.save(secret, webhook).path)
    except (OSError, Misconfigured) as error:
        raise Retry(
            f"webhook {webhook} exists, but its secret could not be saved ({error}):"
            f" make room, then `gemhooks webhook rotate {webhook} --save-to {place.path}`"
        ) from None


def list_(form: FormatOption = Format.TABLE) -> None:
    """List all webhooks of the project, to the last page."""
    with webhooks() as api:
        found = api.list()
    show([row(webhook) for webhook in found], LIST_COLUMNS, form)


def get(webhook: IdArgument, form: FormatOption = Format.TABLE) -> None:
    """Show one webhook."""
    with webhooks() as api:
        show_webhook(api.get(webhook_id(webhook)), form)


def update(
    webhook: IdArgument,
    *,
    uri: UriOption = "",
    event: EventsOption = None,
    name: NameOption = "",
    form: FormatOption = Format.TABLE,
) -> None:
    """Change what is named; the events given replace the former ones."""
    fields: dict[str, Any] = {"uri": wishes.check_uri(uri)} if uri else {}
    fields |= {"subscribed_events": list(wishes.check_events(event))} if event else {}
    fields |= {"name": name} if name else {}
    if not fields:
        raise Misconfigured("say what to change: --uri, --event or --name.")
    change(webhook, form, **fields)


def enable(webhook: IdArgument, form: FormatOption = Format.TABLE) -> None:
    """Let Gemini deliver (again), also after it gave up on failed deliveries."""
    change(webhook, form, state=ENABLED)


def disable(webhook: IdArgument, form: FormatOption = Format.TABLE) -> None:
    """Let Gemini deliver nothing; what happens meanwhile sends no event later."""
    change(webhook, form, state=DISABLED)


def change(webhook: str, form: Format, **fields: Any) -> None:
    with webhooks() as api:
        show_webhook(api.update(webhook_id(webhook), **fields), form)


def delete(
    webhook: IdArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="don't ask")] = False,
) -> None:
    """Delete a webhook; its secrets stay where they are saved."""
    bare = webhook_id(webhook)
    with webhooks() as api:
        found = api.get(bare)
        if not yes:
            typer.confirm(f"Delete {found.name or found.id}, which calls {found.uri}?", abort=True)
        api.delete(bare)
    typer.echo(f"{bare} deleted")


def show_webhook(webhook: Webhook, form: Format) -> None:
    show_one(row(webhook), (*COLUMNS, "create_time", "update_time"), form)
