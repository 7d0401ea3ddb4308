"""The message contract from the models: JSON Schema of the bodies, AsyncAPI 3 of the broker."""

import json
from typing import Any

import yaml
from pydantic.json_schema import models_json_schema

from gemhooks import events, topology
from gemhooks.messages import CLOUDEVENTS_SOURCE, Source

SCHEMA = "messages.schema.json"
Json = dict[str, Any]
OTHERS = (events.InteractionEvent, events.BatchEvent, events.VideoEvent, events.Event)


def schema_text() -> str:
    return json.dumps(schema(), indent=2) + "\n"


def schema() -> Json:
    """One definition a class; the whole takes any body, and each type's own where it is known."""
    classes: tuple[type[events.Event], ...] = (*events.KNOWN, *OTHERS)
    _, made = models_json_schema(
        [(each, "validation") for each in classes], ref_template="#/$defs/{model}"
    )
    definitions: Json = made["$defs"]
    for kind in events.KNOWN:
        definitions[kind.__name__]["properties"]["type"] = {"enum": list(kind.types)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What gemhooks publishes",
        "description": "Bodies in gemhooks.events are Gemini's own bytes, in the documented shape;"
        " those in gemhooks.results are ours. Ignore properties that you don't know.",
        "$ref": "#/$defs/Event",
        "allOf": [_when(kind) for kind in events.KNOWN],
        "$defs": dict(sorted(definitions.items())),
    }


def _when(kind: type[events.Event]) -> Json:
    return {
        "if": {"properties": {"type": {"enum": list(kind.types)}}, "required": ["type"]},
        "then": {"$ref": f"#/$defs/{kind.__name__}"},
    }


def asyncapi_text() -> str:
    note = "# Written by `make docs` from gemhooks/events.py and gemhooks/topology.py.\n"
    return note + yaml.safe_dump(asyncapi(), sort_keys=False, width=100)


def asyncapi() -> Json:
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "gemhooks",
            "version": "1",
            "description": "Verified Gemini webhooks and fetched results, as RabbitMQ carries them.",
        },
        "defaultContentType": "application/json",
        "channels": {
            "events": _channel(topology.EVENTS, "Gemini's events, each body as it was received."),
            "results": _channel(topology.RESULTS, "What the built-in workers make of them."),
        },
        "operations": {
            "receiveEvents": {"action": "receive", "channel": {"$ref": "#/channels/events"}},
            "receiveResults": {"action": "receive", "channel": {"$ref": "#/channels/results"}},
        },
        "components": {
            "messages": {kind.__name__: _message(kind) for kind in events.KNOWN},
            "schemas": {"Headers": _headers()},
        },
    }


def _channel(exchange: str, description: str) -> Json:
    kinds = [kind for kind in events.KNOWN if kind.exchange == exchange]
    return {
        "address": "{type}",
        "description": f"{description} The routing key is the event's type.",
        "parameters": {"type": {"description": "the event's type"}},
        "messages": {
            kind.__name__: {"$ref": f"#/components/messages/{kind.__name__}"} for kind in kinds
        },
        "bindings": {
            "amqp": {
                "is": "routingKey",
                "exchange": {"name": exchange, "type": "topic", "durable": True},
                "bindingVersion": "0.3.0",
            }
        },
    }


def _message(kind: type[events.Event]) -> Json:
    return {
        "name": kind.types[0],
        "summary": (kind.__doc__ or f"An event of Gemini's: {kind.types[0]}.").splitlines()[0],
        "headers": {"$ref": "#/components/schemas/Headers"},
        "payload": {"$ref": f"./{SCHEMA}#/$defs/{kind.__name__}"},
        "bindings": {"amqp": {"messageType": kind.types[0], "bindingVersion": "0.3.0"}},
    }


def _headers() -> Json:
    text = {"type": "string"}
    return {
        "type": "object",
        "required": ["cloudEvents_id", "cloudEvents_type", "gemhooks-trust", "gemhooks-source"],
        "properties": {
            "cloudEvents_specversion": {"const": "1.0"},
            "cloudEvents_id": {**text, "description": "the same for every copy: handle each once"},
            "cloudEvents_source": {"const": CLOUDEVENTS_SOURCE},
            "cloudEvents_type": {**text, "description": "the whole type, however long"},
            "cloudEvents_time": {**text, "description": "RFC 3339; when the body has one"},
            "traceparent": {**text, "description": "W3C Trace Context, when there is one"},
            "gemhooks-scheme": {"enum": ["v1", "v1a", "jwt"], "description": "absent: made by us"},
            "gemhooks-trust": {
                "enum": ["body", "hint"],
                "description": "hint: the signature does not cover the body; ask Gemini",
            },
            "gemhooks-source": {"enum": [each.value for each in Source]},
            "gemhooks-attempt": {"type": "integer", "minimum": 1},
            "gemhooks-replay": {"type": "integer", "minimum": 1},
            "gemhooks-waiting": {"type": "integer", "minimum": 1},
            "gemhooks-first-at": {"type": "integer", "description": "Unix seconds"},
        },
    }
