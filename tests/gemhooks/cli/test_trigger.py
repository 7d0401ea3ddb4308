"""What is sent by hand is what Gemini would send: signed, in any type, variant and scheme."""

import re
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gemhooks import events
from gemhooks.cli import app
from gemhooks.errors import Misconfigured
from gemhooks.queues.sqlite import SqliteBroker
from gemhooks.simulator import Simulator
from gemhooks.testing import VARIANTS
from tests.integration.processes import is_ready, process
from tests.services.ports import free_port
from tests.services.waiting import eventually

SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def gemini() -> Iterator[Simulator]:
    with Simulator() as simulator:
        yield simulator


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('queue')}/queue.db"


@pytest.fixture(scope="module")
def receiver(
    gemini: Simulator, queue: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A real receiver, for all three schemes."""
    port, admin = free_port(), free_port()
    url = f"http://127.0.0.1:{port}/webhooks/gemini"
    env = {
        "GEMHOOKS_BROKER_URL": queue,
        "GEMHOOKS_PORT": str(port),
        "GEMHOOKS_ADMIN_PORT": str(admin),
        "GEMINI_WEBHOOK_SECRET": SECRET,
        "GEMHOOKS_SCHEMES": "v1 v1a jwt",
        "GEMHOOKS_PATH_TOKENS": TOKEN,
        "GEMHOOKS_JWKS_URL": gemini.jwks_url,
        "GEMHOOKS_JWT_AUDIENCE": f"{url}/{TOKEN}",
    }
    with process("receiver", log=tmp_path_factory.mktemp("log") / "log", env=env):
        eventually(is_ready(admin), why="the receiver is ready")
        yield url


def trigger(*arguments: str, secret: str = SECRET) -> Result:
    return CliRunner().invoke(app, ["trigger", *arguments], env={"GEMINI_WEBHOOK_SECRET": secret})


def newest(queue: str, name: str) -> events.Event:
    broker = SqliteBroker(queue)
    try:
        message, _headers = broker.browse(name)[-1]
        return events.parse(message.body)
    finally:
        broker.close()


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_sent_with_its_metadata(receiver: str, queue: str, variant: str) -> None:
    options = ("--id", f"b-{variant}", "--variant", variant, "--metadata", "team=a=b")
    result = trigger("batch.failed", "--to", receiver, *options)

    assert result.exit_code == 0, result.output
    assert newest(queue, "gemhooks.batches").data.id == f"b-{variant}"
    assert newest(queue, "gemhooks.batches").data.user_metadata == {"team": "a=b"}


@pytest.mark.parametrize("kind", [each for each in events.BY_TYPE if each.count(".") == 1])
def test_every_type_is_taken(receiver: str, kind: str) -> None:
    result = trigger(kind, "--to", receiver)

    assert f"{kind} answered 204" in result.output


@pytest.mark.parametrize("scheme", ["v1a", "jwt"])
def test_the_other_schemes_are_signed_by_the_simulator(
    receiver: str, gemini: Simulator, queue: str, scheme: str
) -> None:
    options = ("--scheme", scheme, "--simulator", gemini.url, "--to", f"{receiver}/{TOKEN}")
    result = trigger("video.generated", "--id", f"o-{scheme}", *options, secret="")

    assert result.exit_code == 0, result.output
    assert newest(queue, "gemhooks.videos").data.id == f"o-{scheme}"


def test_several_have_an_id_each(receiver: str) -> None:
    result = trigger("batch.expired", "--count", "5", "--to", receiver)

    assert (
        len(set(re.findall(r"^(msg_\S+) batch.expired answered 204$", result.output, re.MULTILINE)))
        == 5
    )


WRONG = "whsec_" + "d3JvbmcgYnV0IHdlbGwtZm9ybWVk"
WEAK = ["whsec_" + "E" * 43 + "=", "whsec_" + "d3Jvbmc=", "changeme"]


@pytest.mark.parametrize("secret", [WRONG, *WEAK])
def test_a_wrong_secret_is_refused_by_the_receiver_and_is_exit_code_1(
    receiver: str, secret: str
) -> None:
    result = trigger("batch.expired", "--to", receiver, secret=secret)

    assert (result.exit_code, "answered 401" in result.output) == (1, True)
    assert ("note: A webhook secret is" in result.output) == (secret in WEAK)
    assert secret not in result.output


def test_a_secret_s_file_counts_before_the_variable_as_it_does_for_the_receiver(
    receiver: str, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET)
    env = {"GEMINI_WEBHOOK_SECRET": WRONG, "GEMINI_WEBHOOK_SECRET_FILE": str(file)}

    assert (
        CliRunner().invoke(app, ["trigger", "batch.expired", "--to", receiver], env=env).exit_code
        == 0
    )


@pytest.mark.parametrize("secret", [" , ", "whsec_", "whsec_abcde"])
def test_without_a_key_nothing_is_sent(receiver: str, secret: str) -> None:
    result = trigger("batch.expired", "--to", receiver, secret=secret)

    assert isinstance(result.exception, Misconfigured)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--variant", "elsewhere"), "--variant 'elsewhere' is none of"),
        (("--metadata", "alone"), "is no name=value"),
        (("--scheme", "jwt", "--simulator", "http://127.0.0.1:1"), "nothing answers at"),
    ],
)
def test_what_is_wrong_is_told(options: tuple[str, ...], said: str) -> None:
    assert said in str(trigger("batch.failed", *options).exception)


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://host:x/", "http://host:0/", "http:///path", "ftp://host/"]
)
def test_what_is_no_url_is_told(url: str) -> None:
    assert "is not an http or https URL" in str(trigger("batch.failed", "--to", url).exception)


@pytest.mark.parametrize(
    "answer",
    [
        b"AMQP\x00\x00\x09\x01",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut",
        b"HTTP/1.1 503 No\r\nContent-Length: 100\r\n\r\ncut",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["amqp", "ssh", "cut", "cut-refusal", "chunks"],
)
@pytest.mark.parametrize("option", ["--to", "--simulator"])
def test_an_answer_that_is_none_is_one_sentence(option: str, answer: bytes) -> None:
    with says(answer) as url:
        done = trigger(
            "batch.failed", *(("--scheme", "jwt") if option != "--to" else ()), option, url
        )
    assert "nothing answers at" in str(done.exception)


@pytest.mark.parametrize("page", [b"<html>", b"{}", b"[]", b'{"ids": []}'])
def test_what_is_no_simulator_is_told(page: bytes) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(page), page)
    with says(answer) as url:
        done = trigger("batch.failed", "--scheme", "jwt", "--simulator", url)
    assert "is no simulator" in str(done.exception)


@pytest.mark.parametrize(
    "page", ["<html>", "{}", "[]", '{"deliveries": [1]}', '{"deliveries": [{"id": "m"}]}']
)
def test_what_took_the_event_and_tells_nothing_of_it_is_no_simulator(page: str) -> None:
    with says(made_answer('{"ids": ["m"]}'), made_answer(page)) as url:
        done = trigger("batch.failed", "--scheme", "jwt", "--simulator", url)
    assert "is no simulator" in str(done.exception)


def made_answer(page: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(page)}\r\n\r\n{page}".encode()


@contextmanager
def says(*answers: bytes) -> Iterator[str]:
    """A server that says these, in turn, to whoever sends it something; the last for ever."""
    left = list(answers)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(left.pop(0) if len(left) > 1 else left[0])

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
