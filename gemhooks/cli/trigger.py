"""``gemhooks trigger``: send one signed event, as Gemini would."""

import time
import urllib.error
import urllib.request
import uuid
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
import typer

from gemhooks import signing
from gemhooks.errors import Misconfigured, Unavailable
from gemhooks.events import BY_TYPE
from gemhooks.settings import Settings

TIMEOUT = 15.0  # seconds


def trigger(
    event: Annotated[str, typer.Argument(help="its type, for instance interaction.completed")],
    to: Annotated[str, typer.Option(help="the receiver's URL")] = (
        "http://127.0.0.1:8080/webhooks/gemini"
    ),
    resource_id: Annotated[str, typer.Option("--id", help="of the interaction, batch ...")] = "",
    secret: Annotated[
        str,
        typer.Option(help="whsec_...; better in the environment", envvar="GEMINI_WEBHOOK_SECRET"),
    ] = "",
) -> None:
    """Send a signed EVENT to a receiver and say what it answered."""
    secret = secret or Settings.from_env().webhook_secret.get_secret_value()
    if not secret:
        raise Misconfigured("set GEMINI_WEBHOOK_SECRET, so that the event can be signed.")
    key = signing.decode_secret(secret.replace(",", " ").split()[0])
    webhook_id = f"msg_{uuid.uuid4()}"
    body = orjson.dumps(payload(event, resource_id or f"triggered_{uuid.uuid4().hex}"))
    status = post(to, body, headers(webhook_id, body, key))
    typer.echo(f"{webhook_id} {event} answered {status}")
    raise typer.Exit(0 if 200 <= status < 300 else 1)  # noqa: PLR2004 - any 2xx


def payload(event: str, resource_id: str) -> dict[str, Any]:
    """A documented body of that type; an unknown type is sent too, since Gemini may."""
    if event not in BY_TYPE:
        typer.echo(f"note: {event} is not a documented type.", err=True)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    data: dict[str, Any] = {"id": resource_id}
    if event.endswith(".failed"):
        data |= {"error_code": 13, "error_message": "triggered by hand"}
    return {"type": event, "version": "v1", "timestamp": now, "data": data}


def headers(webhook_id: str, body: bytes, key: bytes) -> dict[str, str]:
    now = str(int(time.time()))
    return {
        "content-type": "application/json",
        "webhook-id": webhook_id,
        "webhook-timestamp": now,
        "webhook-signature": signing.sign_v1(webhook_id, now, body, key),
    }


def post(url: str, body: bytes, given: dict[str, str]) -> int:
    if not url.startswith(("http://", "https://")):
        raise Misconfigured(f"{url} is not an http or https URL.")
    request = urllib.request.Request(url, body, given, method="POST")  # noqa: S310 - checked above
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError as error:
        raise Unavailable(f"nothing answers at {url}: {error}.") from None
