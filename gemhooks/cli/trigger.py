"""``gemhooks trigger``: send signed events, as Gemini would."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
import typer

from gemhooks.cli import sending
from gemhooks.errors import Misconfigured, Unavailable
from gemhooks.events import BY_TYPE
from gemhooks.signing import Scheme
from gemhooks.testing import factories

PATIENCE = 20.0  # seconds until the simulator has sent what it was asked to


@dataclass(frozen=True)
class Sent:
    id: str
    status: int | None  # None: no answer

    @property
    def is_taken(self) -> bool:
        return self.status is not None and 200 <= self.status < 300  # noqa: PLR2004 - any 2xx


def trigger(
    event: Annotated[str, typer.Argument(help="its type, for instance interaction.completed")],
    *,
    to: Annotated[str, typer.Option(help="the receiver's URL")] = (
        "http://127.0.0.1:8080/webhooks/gemini"
    ),
    resource_id: Annotated[str, typer.Option("--id", help="of the interaction, batch ...")] = "",
    metadata: Annotated[
        list[str] | None, typer.Option(help="name=value in its user_metadata; repeatable")
    ] = None,
    variant: Annotated[
        str, typer.Option(help=f"where the id stands: {', '.join(factories.VARIANTS)}")
    ] = factories.VARIANTS[0],
    count: Annotated[int, typer.Option(min=1, max=100_000, help="so many, an id each")] = 1,
    scheme: Annotated[
        Scheme, typer.Option(help="v1a and jwt are signed and sent by the simulator")
    ] = Scheme.V1,
    simulator: Annotated[str, typer.Option(help="its URL")] = "http://127.0.0.1:8787",
    secret: Annotated[
        str, typer.Option(help="whsec_...; better as GEMINI_WEBHOOK_SECRET or ..._FILE")
    ] = "",
) -> None:
    """Send a signed EVENT to a receiver and say what it answered.

    Exit code 0 if each is answered with a 2xx, else 1; a redirect is not followed.
    """
    if event not in BY_TYPE:
        typer.echo(f"note: {event} is not a documented type.", err=True)
    sending.check(to)
    key = sending.key_of(secret) if scheme is Scheme.V1 else None
    taken = 0
    for _ in range(count):
        body = made(event, resource_id, metadata or [], variant)
        sent = send(to, body, key) if key else send_through(simulator, to, body, scheme)
        taken += sent.is_taken
        typer.echo(f"{sent.id} {event} answered {sent.status or 'nothing'}")
    raise typer.Exit(0 if taken == count else 1)


def made(event: str, resource_id: str, metadata: list[str], variant: str) -> bytes:
    """A body with what the guide puts into that type; an unknown type is sent, too."""
    pairs = dict(_pair(text) for text in metadata)
    name = resource_id or f"triggered_{uuid.uuid4().hex}"
    try:
        return factories.body(event, id=name, user_metadata=pairs or None, variant=variant)
    except ValueError as error:
        raise Misconfigured(f"--variant {error}.") from None


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise Misconfigured(f"--metadata {text} is no name=value.")
    return name, value


def send(url: str, body: bytes, key: bytes) -> Sent:
    webhook_id = f"msg_{uuid.uuid4()}"
    return Sent(webhook_id, sending.post(url, body, sending.headers(webhook_id, body, key)))


def send_through(simulator: str, url: str, body: bytes, scheme: Scheme) -> Sent:
    """Let the simulator sign with the keys that it publishes, and send."""
    wanted = {"event": orjson.loads(body), "uris": [url], "scheme": scheme.value}
    kind = {"content-type": "application/json"}
    with _read(
        simulator, sending.ask(f"{simulator}/control/events", orjson.dumps(wanted), kind)
    ) as found:
        (webhook_id,) = found["ids"]
    return Sent(webhook_id, _status_of(simulator, webhook_id))


@contextmanager
def _read(simulator: str, answered: tuple[int, bytes]) -> Iterator[Any]:
    """What it answered; Misconfigured where that lacks what is looked up in it."""
    status, answer = answered
    try:
        yield orjson.loads(answer)
    except (ValueError, LookupError, TypeError):
        raise Misconfigured(
            f"{simulator} is no simulator of this release: it answers {status}."
        ) from None


def _status_of(simulator: str, webhook_id: str) -> int | None:
    """What the first attempt was answered."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with _read(simulator, sending.ask(f"{simulator}/control/deliveries")) as found:
            answers: dict[str, int | None] = {
                each["id"]: each["status"] for each in found["deliveries"]
            }
        if webhook_id in answers:
            return answers[webhook_id]
        time.sleep(0.05)
    raise Unavailable(f"{simulator} has sent nothing within {PATIENCE:g} s.")
