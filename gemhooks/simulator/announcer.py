"""Who hears of what became of a resource, and in which of the documented shapes."""

from collections.abc import Callable, Mapping
from typing import Any

from gemhooks.signing import Scheme
from gemhooks.simulator.clock import rfc3339
from gemhooks.simulator.signatures import Target
from gemhooks.simulator.variants import Variants
from gemhooks.simulator.webhook_config import WebhookConfig

Json = dict[str, Any]


class Announcer:
    def __init__(
        self,
        send: Callable[[str, Json, list[Target]], str],
        subscribers: Callable[[str], list[Target]],
        variants: Callable[[], Variants],
    ) -> None:
        self._send = send
        self._subscribers = subscribers
        self._variants = variants

    def announce(self, event_type: str, data: Json, config: WebhookConfig | None = None) -> str:
        """Send the event to *config*'s uris or else to whom subscribed; returns its id."""
        uris = config.uris if config is not None else ()
        scheme = Scheme(self._variants().dynamic_scheme)
        # The uris of a request are used instead of the registered webhooks, not besides.
        dynamic = [Target(uri, scheme=scheme) for uri in uris]
        targets = dynamic or self._subscribers(event_type)
        metadata = config.user_metadata if config is not None else None
        event = shaped(event_type, data, metadata, self._variants())
        return self._send(event_type, event, targets)


def envelope(event_type: str, data: Mapping[str, Any]) -> Json:
    return {"type": event_type, "version": "v1", "timestamp": rfc3339(), "data": dict(data)}


def shaped(
    event_type: str, data: Json, metadata: Mapping[str, Any] | None, variants: Variants
) -> Json:
    """The event as *variants* want it; *data* is in the form of the guide's catalog."""
    event = envelope(event_type, _with_code(data, variants))
    event[variants.type_key] = event.pop("type")
    _move_id(event, variants.id_at)
    if metadata is not None:
        _add_metadata(event, metadata, variants.user_metadata_at)
    return event


def _with_code(data: Json, variants: Variants) -> Json:
    if "error_code" not in data or variants.error_code == "int":
        return data
    rest = {name: value for name, value in data.items() if name != "error_code"}
    return (
        rest if variants.error_code == "absent" else {**rest, "error_code": str(data["error_code"])}
    )


def _move_id(event: Json, place: str) -> None:
    data = event["data"]
    if place == "data.id":
        return
    value = data.pop("id")
    if place == "interaction.id":
        event["interaction"] = {"id": value} | event.pop("data")
    elif place == "data.interaction.id":
        data["interaction"] = {"id": value}
    else:
        data[place.removeprefix("data.")] = value


def _add_metadata(event: Json, metadata: Mapping[str, Any], place: str) -> None:
    if place == "top":
        event["user_metadata"] = metadata
    elif place == "interaction":
        event.setdefault("interaction", {})["user_metadata"] = metadata
    elif place == "data":
        event["data" if "data" in event else "interaction"]["user_metadata"] = metadata
