"""What each request is answered, logged and counted."""

import time
from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs
from werkzeug.test import Client, TestResponse

from gemhooks.errors import PublishFailed
from gemhooks.keys import KeyRing, SigningSecrets
from gemhooks.metrics import ReceiverMetrics
from gemhooks.signing import Scheme, decode_secret, sign_v1
from gemhooks.testing import MemoryPublisher
from receiver.adapter import wait_for_confirm
from receiver.app import Receiver, create_app

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"type": "interaction.completed", "data": {"id": "int_1"}}'
PATH = "/webhooks/gemini"


class Under:
    """A receiver under test, through the plain WSGI way."""

    def __init__(self, publisher: MemoryPublisher | None = None, **more: Any) -> None:
        self.publisher = publisher or MemoryPublisher()
        self.registry = CollectorRegistry()
        receiver = Receiver(
            keys=KeyRing(SigningSecrets(SECRET)),
            publisher=self.publisher,
            metrics=ReceiverMetrics(self.registry),
            **more,
        )
        self.client = Client(wait_for_confirm(create_app(receiver)))

    def post(
        self, body: bytes = BODY, path: str = PATH, headers: Mapping[str, str] | None = None
    ) -> TestResponse:
        return self.client.post(path, data=body, headers=signed(body) | dict(headers or {}))

    def count(self, outcome: str, event_type: str = "other", scheme: str = "none") -> float | None:
        labels = {"event_type": event_type, "scheme": scheme, "outcome": outcome}
        return self.registry.get_sample_value("gemhooks_webhook_requests_total", labels)


def signed(body: bytes) -> dict[str, str]:
    now = int(time.time())
    signature = sign_v1("msg_1", now, body, decode_secret(SECRET))
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(now),
        "webhook-signature": signature,
    }


def test_a_signed_webhook_is_published_logged_and_counted_once() -> None:
    under = Under()

    with capture_logs() as lines:
        answer = under.post()

    assert (answer.status_code, answer.data) == (204, b"")
    assert [message.body for message in under.publisher.messages] == [BODY]
    assert [(line["event"], line["outcome"]) for line in lines] == [
        ("webhook_received", "published")
    ]
    assert under.count("published", "interaction.completed", "v1") == 1


@pytest.mark.parametrize("body", [b"[]", b"5", b"null", b"\xff", b"", b'{"type": 5}'])
def test_a_verified_body_of_any_shape_is_stored(body: bytes) -> None:
    under = Under()

    assert under.post(body).status_code == 204
    assert under.publisher.messages[0].type == "unknown"


@pytest.mark.parametrize(
    "kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_any_content_type_is_taken(kind: str) -> None:
    under = Under()

    assert under.post(headers={"Content-Type": kind}).status_code == 204
    assert under.publisher.messages[0].body == BODY


def test_all_refusals_look_the_same() -> None:
    under = Under()
    changes = [
        {"webhook-signature": ""},
        {"webhook-signature": "v1,AAAA"},
        {"webhook-timestamp": "1"},
    ]

    answers = [under.post(headers=change) for change in changes]

    assert len({(each.status, each.data, str(each.headers)) for each in answers}) == 1
    assert answers[0].status_code == 401
    assert under.publisher.messages == []


@pytest.mark.parametrize(
    ("publisher", "status"),
    [
        (MemoryPublisher(error=PublishFailed("nacked")), 503),
        (MemoryPublisher(error=PublishFailed("too_large")), 413),
        (MemoryPublisher(error=RuntimeError("x")), 503),
        (MemoryPublisher(silent=True), 503),
    ],
)
def test_what_is_not_confirmed_is_not_accepted(publisher: MemoryPublisher, status: int) -> None:
    answer = Under(publisher, publish_timeout=-1.0).post()

    assert answer.status_code == status
    assert ("Retry-After" in answer.headers) == (status == 503)


def test_other_requests_get_their_own_answers() -> None:
    under = Under(max_body=1024)
    wrong_method = under.client.get(PATH)

    assert (wrong_method.status_code, wrong_method.headers["Allow"]) == (405, "POST")
    assert under.client.post("/nowhere").status_code == 404
    assert under.post(b"x" * 1025).status_code == 413
    assert under.post(headers={"Content-Encoding": "gzip"}).status_code == 415


def test_only_a_known_token_opens_the_other_path() -> None:
    under = Under(path_tokens=("good",), schemes=(Scheme.V1, Scheme.JWT))

    assert under.post(path=f"{PATH}/good").status_code == 204
    assert under.post(path=f"{PATH}/bad").status_code == 404


def test_health_tells_ready_from_alive() -> None:
    under = Under(ready=lambda: False)

    assert under.client.get("/livez").status_code == 200
    assert under.client.get("/readyz").status_code == 503
