"""RabbitMQ by way of TLS, on a loop of either kind."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gemhooks.queues.rabbitmq import RabbitBroker
from tests.gemhooks.queues.helpers import ALL, PATIENCE, consume, event, publish, take
from tests.services.proxy import Proxy


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """One for 127.0.0.1, signed by itself: the file that vouches for it, and a server's context."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    places = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(places, critical=False)
        .sign(key, hashes.SHA256())
    )
    file, private = folder / "cert.pem", folder / "key.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, private)
    return file, context


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    made: asyncio.AbstractEventLoop = request.param()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


@pytest.mark.parametrize("size", [100, 300_000], ids=["one frame", "several"])
def test_what_is_published_by_way_of_tls_arrives_whole(
    amqp_url: str, loop: asyncio.AbstractEventLoop, tmp_path: Path, size: int
) -> None:
    file, context = certificate(tmp_path)
    parts = urlsplit(amqp_url)
    with Proxy(parts.port or 5672, tls=context) as proxy:
        place = f"{parts.username}:{parts.password}@127.0.0.1:{proxy.port}"
        trust = "ssl_options=" + quote(repr({"ca_certs": str(file)}))
        url = urlunsplit(parts._replace(scheme="amqps", netloc=place, query=trust))
        broker = RabbitBroker(url, publish_timeout=PATIENCE, loop=loop, declare=[ALL])
        broker.declare([ALL])
        sent = event(body=b"x" * size)

        publish(broker, sent)

        delivery = take(consume(broker))
        delivery.ack()
        broker.close()
        assert delivery.message.body == sent.body
