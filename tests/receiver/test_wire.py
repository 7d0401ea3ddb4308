"""The receiver on a real server, byte by byte."""

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from gemhooks.keys import KeyRing, SigningSecrets
from gemhooks.metrics import ReceiverMetrics
from gemhooks.testing import MemoryPublisher
from receiver.app import Receiver
from receiver.server import Server, config
from tests.receiver.test_answers import BODY, SECRET, signed

HEAD = b"POST /webhooks/gemini HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"


async def _exchange(publisher: MemoryPublisher, parts: list[bytes]) -> bytes:
    receiver = Receiver(
        keys=KeyRing(SigningSecrets(SECRET)),
        publisher=publisher,
        metrics=ReceiverMetrics(CollectorRegistry()),
        max_body=1024,
    )
    given: Any = SimpleNamespace(grace=1.0)
    server = Server(config(receiver, given))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        serving = asyncio.create_task(server.serve([listener]))
        answer = await _send(port, parts)
        server.should_exit = True
        await serving
    return answer


async def _send(port: int, parts: list[bytes]) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in parts:
        writer.write(part)
        await writer.drain()
    answer = await reader.read()
    writer.close()
    return answer


def exchange(publisher: MemoryPublisher, *parts: bytes) -> bytes:
    return asyncio.run(_exchange(publisher, list(parts)))


def head(**headers: str) -> bytes:
    lines = {**signed(BODY), **{k.replace("_", "-"): v for k, v in headers.items()}}
    return HEAD + "".join(f"{k}: {v}\r\n" for k, v in lines.items()).encode() + b"\r\n"


def test_a_chunked_body_arrives_whole() -> None:
    publisher = MemoryPublisher()
    chunks = [b"%x\r\n%s\r\n" % (len(c), c) for c in (BODY[:5], BODY[5:])]

    answer = exchange(publisher, head(transfer_encoding="chunked"), *chunks, b"0\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 204")
    assert publisher.messages[0].body == BODY


@pytest.mark.parametrize("framing", ["content-length", "chunked"])
def test_a_body_beyond_the_limit_is_refused_before_it_ends(framing: str) -> None:
    if framing == "chunked":
        parts = [head(transfer_encoding="chunked"), b"800\r\n" + b"x" * 2048 + b"\r\n"]
    else:
        parts = [head(content_length="99999999")]

    assert exchange(MemoryPublisher(), *parts).startswith(b"HTTP/1.1 413")


@settings(max_examples=15, deadline=None)
@given(value=st.text(st.characters(min_codepoint=33, max_codepoint=255)), body=st.binary())
def test_garbage_is_never_answered_500(value: str, body: bytes) -> None:
    lines = f"webhook-signature: v1,{value}\r\ncontent-type: {value}\r\n".encode("latin-1")
    length = b"content-length: %d\r\n\r\n" % len(body)

    answer = exchange(MemoryPublisher(), HEAD + lines + length, body)

    assert answer.split(b" ")[1] in (b"400", b"401")
