"""The Flask application: the routes and what each error answers."""

import hmac
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import structlog
from flask import Flask, Request, Response, request
from werkzeug.exceptions import HTTPException, NotFound, UnsupportedMediaType

from gemhooks import heads
from gemhooks.errors import InvalidSignature, KeysUnavailable, PublishFailed
from gemhooks.keys import WouldWait
from gemhooks.messages import UNKNOWN, Message, Publisher, fits_shortstr
from gemhooks.metrics import ReceiverMetrics
from gemhooks.signing import TOLERANCE_SECONDS, JwtRules, Keys, Scheme, Webhook, verify
from receiver.answers import AT_ONCE, PENDING, Answer, Pending, Record, not_published
from receiver.lean import BareResponse, LeanFlask

log = structlog.get_logger()

PATH = "/webhooks/gemini"
MAX_BODY = 1 << 20
SIGNED_HEADERS = (
    ("webhook-id", "HTTP_WEBHOOK_ID"),
    ("webhook-timestamp", "HTTP_WEBHOOK_TIMESTAMP"),
    ("webhook-signature", "HTTP_WEBHOOK_SIGNATURE"),
)
REQUEST_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)  # a proxy's, to find a request in its log
TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")  # W3C
RECORD = "gemhooks.record"  # where in the WSGI environ
PUBLISHING = BareResponse(204)
OUTCOMES = {404: "not_found", 405: "method_not_allowed", 413: "too_large", 415: "encoded"}


@dataclass(frozen=True)
class Receiver:
    """What the routes need."""

    keys: Keys
    publisher: Publisher
    metrics: ReceiverMetrics
    keys_at_once: Keys | None = None  # which raise WouldWait; None: *keys* never wait
    ready: Callable[[], bool] = lambda: True
    schemes: Collection[Scheme] = (Scheme.V1,)
    path_tokens: tuple[str, ...] = ()
    tolerance: int = TOLERANCE_SECONDS
    max_body: int = MAX_BODY
    publish_timeout: float = 5.0
    jwt_rules: JwtRules = field(default_factory=JwtRules)
    now: Callable[[], float] = time.time

    def knows(self, token: str) -> bool:
        """Compare with every token, each in constant time."""
        given = token.encode("utf-8", "surrogatepass")
        return any([hmac.compare_digest(given, each.encode()) for each in self.path_tokens])  # noqa: C419 - no early end


def create_app(receiver: Receiver) -> Flask:
    app = LeanFlask("receiver", begin=partial(_begin, receiver))
    app.config["MAX_CONTENT_LENGTH"] = receiver.max_body
    app.url_map.merge_slashes = False  # a redirect is no answer to a webhook
    _add_webhooks(app, receiver)
    _add_health(app, receiver)
    _add_errors(app)
    return app


def _begin(receiver: Receiver, environ: dict[str, Any]) -> None:
    given = environ.get("HTTP_X_REQUEST_ID", "")
    environ[RECORD] = Record(
        receiver.metrics, request_id=given if given and REQUEST_ID.fullmatch(given) else ""
    )


def _record() -> Record:
    found: Record = request.environ[RECORD]
    return found


def _add_webhooks(app: Flask, receiver: Receiver) -> None:
    # Google's keys are the same for all customers: they count only where the path is secret.
    public = [each for each in receiver.schemes if each is Scheme.V1]

    def receive_webhook() -> Response:
        return _receive(receiver, public)

    def receive_at_token(token: str) -> Response:
        if not receiver.knows(token):
            raise NotFound
        return _receive(receiver, receiver.schemes)

    for path, view in ((PATH, receive_webhook), (f"{PATH}/<token>", receive_at_token)):
        app.add_url_rule(path, view_func=view, methods=["POST"], provide_automatic_options=False)


def _receive(receiver: Receiver, schemes: Collection[Scheme]) -> Response:
    # Its documented way to the request itself: each look at the proxy costs as much as the check.
    asked: Request = cast("Any", request)._get_current_object()  # noqa: SLF001
    environ = asked.environ  # its headers would cost more than the check itself
    if environ.get("HTTP_CONTENT_ENCODING", "").strip().lower() not in ("", "identity"):
        raise UnsupportedMediaType
    body = asked.get_data(cache=False)
    webhook = verify(
        _headers(environ),
        body,
        _keys(receiver, environ),
        now=receiver.now(),
        schemes=schemes,
        tolerance=receiver.tolerance,
        jwt_rules=receiver.jwt_rules,
    )
    message = _message(webhook, environ)
    record: Record = environ[RECORD]
    record.webhook_id, record.event_type = webhook.id, message.type
    record.scheme, record.key = webhook.scheme.value, webhook.key
    record.metrics.verified(record.scheme, record.key)
    future = receiver.publisher.publish(message)
    environ[PENDING] = Pending(future, record, receiver.publish_timeout)
    return PUBLISHING  # the server answers in its place once the future has ended


def _keys(receiver: Receiver, environ: Mapping[str, Any]) -> Keys:
    return (environ.get(AT_ONCE) and receiver.keys_at_once) or receiver.keys


def _headers(environ: Mapping[str, str]) -> dict[str, str]:
    """The signed headers, as far as they were sent."""
    return {name: environ[key] for name, key in SIGNED_HEADERS if key in environ}


def _message(webhook: Webhook, environ: Mapping[str, str]) -> Message:
    head = heads.head_of(webhook.body)
    is_plain = fits_shortstr(head.type) and fits_shortstr(webhook.id)
    kind = environ.get("CONTENT_TYPE", "")
    return Message(
        id=webhook.id,
        type=head.type if is_plain else UNKNOWN,
        body=webhook.body,
        timestamp=webhook.timestamp,
        time=head.time,
        content_type=kind if kind and fits_shortstr(kind) else "application/json",
        scheme=webhook.scheme.value,
        trust=webhook.trust.value,
        traceparent=head.traceparent or _traceparent(environ),
    )


def _traceparent(environ: Mapping[str, str]) -> str:
    """What a proxy set, for a body that has none; unsigned, so only where it is well-formed."""
    given = environ.get("HTTP_TRACEPARENT", "")
    return given if given and TRACEPARENT.fullmatch(given) else ""


def _add_health(app: Flask, receiver: Receiver) -> None:
    def livez() -> Response:
        return Response("ok\n", 200)

    def readyz() -> Response:
        return Response("ok\n", 200) if receiver.ready() else Response("not ready\n", 503)

    for path, view in (("/livez", livez), ("/readyz", readyz)):
        app.add_url_rule(path, view_func=view, methods=["GET"], provide_automatic_options=False)


def _add_errors(app: Flask) -> None:
    app.register_error_handler(InvalidSignature, _refuse)
    app.register_error_handler(WouldWait, _would_wait)
    app.register_error_handler(KeysUnavailable, _no_keys)
    app.register_error_handler(PublishFailed, _not_published)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(Exception, _unexpected)


def _answer(answer: Answer) -> Response:
    _record().report(answer)
    response = Response(status=answer.status)
    response.headers.clear()
    response.headers.extend(answer.headers())
    return response


def _refuse(error: InvalidSignature) -> Response:
    _record().metrics.signature_failed(str(error.reason))
    return _answer(Answer(401, "bad_signature", str(error.reason)))


def _would_wait(_: WouldWait) -> Response:
    request.environ[AT_ONCE] = False
    return PUBLISHING  # nobody reads it: the view is called again, on a thread


def _no_keys(error: KeysUnavailable) -> Response:
    return _answer(Answer(503, "keys_unavailable", str(error.reason)))


def _not_published(error: PublishFailed) -> Response:
    _record().metrics.published(error.reason, 0.0)
    return _answer(not_published(error.reason))


def _http(error: HTTPException) -> Response:
    status = error.code or 400
    allow = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
    return _answer(Answer(status, OUTCOMES.get(status, "bad_request"), allow=allow))


def _unexpected(error: Exception) -> Response:
    log.error("receiver_failed", exc_info=error)
    return _answer(Answer(503, "failed", type(error).__name__))
