"""Where RabbitMQ is, and what it says to those who knock."""

import copy
import os
import re
import socket
from urllib.parse import urlsplit

import pika
from pika.adapters.utils.connection_workflow import AMQPConnectorException
from pika.exceptions import (
    AMQPConnectionError,
    AuthenticationError,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from gemhooks.errors import GemhooksError, Misconfigured, Unavailable

ACCESS_REFUSED = 403
NOT_ALLOWED = 530  # the virtual host is missing, or closed to this user
PASSES = re.compile(r"[a-z ]*limit \(\d+\) is reached|vhost '.*' is down")  # refusals, with 530 too
HANDSHAKE = 5.0  # seconds


def parse(url: str, heartbeat: int) -> pika.URLParameters:
    if urlsplit(url).scheme not in ("amqp", "amqps"):
        raise Misconfigured("the broker's URL must begin with amqp:// or amqps://")
    try:
        parameters = pika.URLParameters(url)
    except Exception as error:
        # Neither the URL nor pika's words about it: they hold the password.
        raise Misconfigured(f"the broker's URL cannot be read ({type(error).__name__})") from None
    parameters.heartbeat = heartbeat
    parameters.stack_timeout = parameters.socket_timeout = HANDSHAKE
    parameters.connection_attempts = 1
    return parameters


def named(parameters: pika.URLParameters, purpose: str) -> pika.URLParameters:
    """The same, with a name by which RabbitMQ lists the connection."""
    mine = copy.copy(parameters)
    name = f"gemhooks {purpose} {socket.gethostname()} {os.getpid()}"
    mine.client_properties = {"connection_name": name}
    return mine


def explain(parameters: pika.URLParameters, reason: BaseException) -> GemhooksError:
    """One sentence for a person, without the password."""
    place = f"RabbitMQ at {parameters.host}:{parameters.port}"
    user = getattr(parameters.credentials, "username", "?")
    root = _root(reason)
    code = root.reply_code if isinstance(root, ConnectionClosedByBroker) else 0
    if code == ACCESS_REFUSED or isinstance(
        root, (AuthenticationError, ProbableAuthenticationError)
    ):
        return Misconfigured(f"{place} refuses the name or the password of user {user!r}")
    if passes := PASSES.search(str(root)):
        return Unavailable(f"{place} takes no connection: {passes[0].strip()}")
    if code == NOT_ALLOWED or isinstance(root, ProbableAccessDeniedError):
        vhost = parameters.virtual_host
        return Misconfigured(f"{place} has no virtual host {vhost!r}, or none for user {user!r}")
    return Unavailable(f"{place} does not answer ({type(root).__name__})")


def _root(reason: BaseException) -> BaseException:
    """pika wraps what happened in what it was doing."""
    while True:
        inner = getattr(reason, "exception", None) or getattr(reason, "exceptions", None)
        inner = inner[-1] if isinstance(inner, (list, tuple)) and inner else inner
        if not isinstance(inner, BaseException):
            return reason
        reason = inner


def check(parameters: pika.URLParameters) -> None:
    """Connect once, in this thread, and leave."""
    try:
        pika.BlockingConnection(parameters).close()
    except (AMQPConnectionError, AMQPConnectorException, OSError) as error:
        raise explain(parameters, error) from None
