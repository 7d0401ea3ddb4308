"""What Gemini signed is what lies in the queue, byte for byte, whoever made the signature."""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pika
import pytest
import urllib3
from standardwebhooks import Webhook

from gemhooks import topology
from tests.integration.processes import is_ready, process
from tests.services.ports import free_port
from tests.services.waiting import eventually

KEY = secrets.token_bytes(32)
SECRET = "whsec_" + base64.b64encode(KEY).decode()
HEAD = '"version":"v1","timestamp":"2026-01-22T12:00:00Z"'

DOCUMENTED = {
    "batch.succeeded": '{"id":"batch_123456","output_file_uri":"gs://my-bucket/results.jsonl"}',
    "batch.failed": '{"id":"batches/abc","error_code":3,"error_message":"bad"}',
    "batch.expired": '{"id":"batches/abc"}',
    "batch.cancelled": '{"id":"batches/abc"}',
    "interaction.requires_action": '{"id":"v1_ChdX"}',
    "interaction.completed": '{"id":"v1_ChdX","user_metadata":{"job_group":"nightly-eval"}}',
    "interaction.failed": '{"id":"v1_ChdX","error_code":13,"error_message":"boom"}',
    "interaction.cancelled": '{"id":"v1_ChdX"}',
    "video.generated": '{"id":"v","output_file_uri":"https://x/files/a","file_name":"files/a"}',
}
ODD = [
    b'{"version":"v1" ,\n "type":"batch.failed","data":{"id":"i","n":1.0,"e":1e2,"u":"\\u00e9"}}\n',
    b'{"type":"batch.failed","data":{"id":"i","s":"a\\/b"}}',
    '{"type":"interaction.completed","data":{"id":"i","t":"👩‍🚀"}}'.encode(),
    b'{"type":"interaction.completed","data":{"id":"\xff\xfe"}}',
    b'{"type":"agent.paused","data":{"id":"i"}}',
    b'{"type":5}',
    b"[]",
    b"null",
    b"",
    b"\x00\xff",
]
BODIES = [f'{{"type":"{name}",{HEAD},"data":{data}}}'.encode() for name, data in DOCUMENTED.items()]


def by_reference(webhook_id: str, now: int, body: bytes) -> str:
    """Sign with the standardwebhooks package; it takes text only."""
    return Webhook(SECRET).sign(webhook_id, datetime.fromtimestamp(now, UTC), body.decode())


def by_hand(webhook_id: str, now: int, body: bytes) -> str:
    """Sign with nothing but the standard library."""
    signed = webhook_id.encode() + b"." + str(now).encode() + b"." + body
    return "v1," + base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()


@pytest.fixture
def receiver(amqp_url: str, tmp_path: Path) -> Iterator[str]:
    """A receiver in front of a real RabbitMQ."""
    port, admin = free_port(), free_port()
    env = {
        "GEMHOOKS_BROKER_URL": amqp_url,
        "GEMINI_WEBHOOK_SECRET": SECRET,
        "GEMHOOKS_PORT": str(port),
        "GEMHOOKS_ADMIN_PORT": str(admin),
        "GEMHOOKS_PUBLISH_TIMEOUT": "60s",
    }
    with process("receiver", log=tmp_path / "receiver.log", env=env):
        eventually(is_ready(admin), why="the receiver is ready")
        yield f"http://127.0.0.1:{port}/webhooks/gemini"


def queued(amqp_url: str) -> list[tuple[bytes, pika.BasicProperties]]:
    """Everything in all queues of ours."""
    connection = pika.BlockingConnection(pika.URLParameters(amqp_url))
    try:
        channel = connection.channel()
        found = []
        built_in = {each.name for each in topology.BUILT_IN} - {topology.FUNCTIONS.name}  # a copy
        for name in [*built_in, topology.UNROUTED]:
            while True:
                method, properties, body = channel.basic_get(name, auto_ack=True)
                if method is None or body is None or properties is None:
                    break
                found.append((body, properties))
        return found
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("sign", "bodies"),
    [(by_reference, BODIES), (by_hand, BODIES), (by_hand, ODD)],
    ids=["reference", "hmac", "odd"],
)
def test_a_signed_body_lies_in_the_queue_byte_for_byte(
    receiver: str,
    amqp_url: str,
    sign: Callable[[str, int, bytes], str],
    bodies: list[bytes],
) -> None:
    now = int(time.time())
    with urllib3.PoolManager() as http:
        statuses = [
            http.request(
                "POST",
                receiver,
                body=body,
                headers={
                    "Webhook-Id": f"msg_{number}",
                    "Webhook-Timestamp": str(now),
                    "Webhook-Signature": sign(f"msg_{number}", now, body),
                },
            ).status
            for number, body in enumerate(bodies)
        ]
    found = queued(amqp_url)

    assert statuses == [204] * len(bodies)
    assert sorted(body for body, _ in found) == sorted(bodies)
    assert {properties.delivery_mode for _, properties in found} == {2}


def test_the_properties_are_those_that_the_documentation_names(
    receiver: str, amqp_url: str
) -> None:
    now, body = int(time.time()), BODIES[0]
    headers = {
        "content-type": "application/json",
        "webhook-id": "msg_1",
        "webhook-timestamp": str(now),
        "webhook-signature": by_hand("msg_1", now, body),
        "authorization": "Bearer hush",
        "cookie": "hush",
    }
    with urllib3.PoolManager() as http:
        http.request("POST", receiver, body=body, headers=headers)
    ((_, properties),) = queued(amqp_url)

    assert (properties.message_id, properties.type) == ("msg_1", "batch.succeeded")
    assert (properties.timestamp, properties.app_id) == (now, "gemhooks")
    assert properties.headers is not None
    assert properties.headers["gemhooks-scheme"] == "v1"
    assert properties.headers["cloudEvents_source"] == "//generativelanguage.googleapis.com"
    assert properties.headers["cloudEvents_time"] == "2026-01-22T12:00:00Z"
    assert "hush" not in json.dumps(properties.headers)
