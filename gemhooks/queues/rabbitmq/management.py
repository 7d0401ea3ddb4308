"""What only RabbitMQ's management API tells: which queues there are, and their arguments."""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import pika

from gemhooks import topology
from gemhooks.asking import NO_ANSWER, asked
from gemhooks.errors import Misconfigured, Unavailable

TIMEOUT = 5.0  # seconds
VARIABLE = "GEMHOOKS_MANAGEMENT_URL"

Arguments = Mapping[str, Any]


def queues(url: str, parameters: pika.URLParameters) -> dict[str, Arguments]:
    """Name and arguments of each queue of the virtual host, asked as the broker's user.

    Raises Misconfigured, Unavailable where the API can't be asked.
    """
    return _arguments(url, parameters, "queues")


def exchanges(url: str, parameters: pika.URLParameters) -> dict[str, Arguments]:
    """Name and arguments of each exchange; otherwise as :func:`queues`."""
    return _arguments(url, parameters, "exchanges")


def _arguments(url: str, parameters: pika.URLParameters, kind: str) -> dict[str, Arguments]:
    if urlsplit(url).scheme not in ("http", "https"):
        raise Misconfigured(f"{VARIABLE} must begin with http:// or https://.")
    vhost = quote(parameters.virtual_host, safe="")
    request = urllib.request.Request(  # noqa: S310 - the scheme was looked at
        f"{url.rstrip('/')}/api/{kind}/{vhost}?columns=name,arguments",
        headers={"Authorization": _credentials(parameters)},
    )
    try:
        with asked(request, timeout=TIMEOUT) as answer:
            return {each["name"]: each.get("arguments", {}) for each in json.load(answer)}
    except urllib.error.HTTPError as error:
        error.close()
        raise Misconfigured(f"{VARIABLE}: the management API answers {error.code}.") from None
    except NO_ANSWER as error:
        raise Unavailable(f"the management API does not answer ({type(error).__name__}).") from None


def _credentials(parameters: pika.URLParameters) -> str:
    known = parameters.credentials
    pair = f"{getattr(known, 'username', '')}:{getattr(known, 'password', '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def differences(found: Mapping[str, Arguments], names: set[str]) -> Iterator[tuple[str, str]]:
    """Name and sentence of each queue of ours that has other arguments than we would give it."""
    for name, ours in topology.all_arguments(names).items():
        theirs = found.get(name, ours)  # that it is missing, AMQP has told
        for key, value in ours.items():
            if theirs.get(key) != value:
                yield name, f"{name} has {key}={theirs.get(key)!r} where {value!r} is needed."
                break
