"""What a newcomer gets wrong: one clear sentence, an exit code that is not 0, no traceback."""

import socket
import subprocess
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pika
import pytest

from gemhooks import topology
from gemhooks.entry import MISCONFIGURED
from tests.integration.processes import command, script
from tests.services.ports import free_port

SLIPS = "tests.integration.slips"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def embedded(folder: Path, **more: str) -> dict[str, str]:
    return {
        "GEMHOOKS_BROKER_URL": f"sqlite:///{folder}/queue.db",
        "GEMHOOKS_DATABASE_URL": f"sqlite:///{folder}/ledger.db",
        "GEMHOOKS_RESULTS_URL": str(folder / "results"),
        "GEMINI_WEBHOOK_SECRET": SECRET,
        "GEMINI_API_KEY": "k",
        "GEMHOOKS_PORT": str(free_port()),
        "GEMHOOKS_ADMIN_PORT": str(free_port()),
        **more,
    }


def assert_one_sentence(ended: subprocess.CompletedProcess[str], *words: str) -> None:
    said = ended.stdout + ended.stderr
    sentences = [line for line in ended.stderr.splitlines() if line.startswith("gemhooks: ")]

    assert ended.returncode not in (0, -9), said
    assert "Traceback" not in said
    assert len(sentences) == 1, said
    assert all(word in sentences[0] for word in words), said


@pytest.mark.parametrize(
    ("arguments", "env", "words"),
    [
        (("receiver",), {"GEMHOOKS_BROKR_URL": "x"}, ("did you mean GEMHOOKS_BROKER_URL",)),
        (("receiver",), {"GEMINI_WEBHOOK_SECRET": ""}, ("secret",)),
        (("receiver",), {"GEMINI_WEBHOOK_SECRET": "whsec_"}, ("secret", "empty")),
        (("receiver",), {"GEMINI_WEBHOOK_SECRET": f"{SECRET} whsec_"}, ("secret", "empty")),
        (("receiver",), {"GEMINI_WEBHOOK_SECRET": "changeme"}, ("secret",)),
        (("receiver",), {"GEMINI_WEBHOOK_SECRET_FILE": "/nowhere"}, ("/nowhere",)),
        (("receiver",), {"GEMHOOKS_SCHEMES": "v1,v1a"}, ("GEMHOOKS_PATH_TOKENS",)),
        (("receiver",), {"GEMHOOKS_BROKER_URL": "kafka://x"}, ("GEMHOOKS_BROKER_URL",)),
        (("workers",), {"GEMINI_API_KEY": ""}, ("GEMINI_API_KEY",)),
        (("workers", "reconcile"), {"GEMINI_API_KEY": ""}, ("GEMINI_API_KEY",)),
        (("workers", "reconsile"), {}, ("the one word reconcile",)),
        (("workers",), {"GEMHOOKS_DATABASE_URL": "mongodb://x"}, ("GEMHOOKS_DATABASE_URL",)),
        (
            ("workers",),
            {"GEMHOOKS_DATABASE_URL": "postgresql://u:hush@127.0.0.1:1/x"},
            ("The database",),
        ),
        (("gemhooks", "consume", "nowhere:consumers"), {}, ("nowhere",)),
        (("gemhooks", "consume", f"{SLIPS}:consumers"), {}, (f"{SLIPS}:consumers", "no handler")),
        (("gemhooks", "consume", f"{SLIPS}:clashing"), {}, ("gemhooks.batches", "built-in")),
        (("workers",), {"GEMHOOKS_FUNCTIONS": f"{SLIPS}:functions"}, ("functions", "no function")),
        (
            ("gemhooks", "dlq", "list"),
            {"GEMHOOKS_BROKER_URL": "amqp://u:hush@127.0.0.1:1/"},
            ("127.0.0.1:1",),
        ),
        (
            ("gemhooks", "jobs", "list"),
            {"GEMHOOKS_DATABASE_URL": "postgresql://u:hush@127.0.0.1:1/x"},
            ("The database",),
        ),
        (("gemhooks", "trigger", "x", "--to", "http://127.0.0.1:1/"), {}, ("127.0.0.1:1",)),
        (("gemhooks", "trigger", "x", "--to", "file:///etc"), {}, ("http",)),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else None,
)
def test_a_mistake_is_one_sentence(
    arguments: tuple[str, ...], env: dict[str, str], words: tuple[str, ...], tmp_path: Path
) -> None:
    ended = command(*arguments, env=embedded(tmp_path, **env))

    assert_one_sentence(ended, *words)
    assert "hush" not in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("program", "port"),
    [
        ("receiver", "GEMHOOKS_PORT"),
        ("receiver", "GEMHOOKS_ADMIN_PORT"),
        ("workers", "GEMHOOKS_ADMIN_PORT"),
    ],
)
def test_a_port_in_use_is_one_sentence(program: str, port: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = str(taken.getsockname()[1])

        ended = command(program, env=embedded(tmp_path, **{port: number}))

    assert_one_sentence(ended, number)


def test_the_simulator_says_that_its_port_is_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = str(taken.getsockname()[1])

        ended = command("gemhooks", "simulate", "--port", number)

    assert_one_sentence(ended, number)


def test_the_version_is_said() -> None:
    assert command("gemhooks", "--version").stdout.startswith("gemhooks 0.")


def test_the_receiver_imports_nothing_of_the_sdk_the_models_the_database_or_the_command_line() -> (
    None
):
    others = ("google.genai", "pydantic", "sqlalchemy", "typer", "rich")
    code = (
        "import sys, gemhooks.entry, receiver.server, gemhooks.queues.rabbitmq.broker;"
        f"print([name for name in {others} if name in sys.modules])"
    )
    ended = script(code)

    assert ended.stdout.strip() == "[]", ended.stderr


def test_a2_07_a_queue_with_other_arguments_is_one_sentence_and_keeps_its_messages(
    amqp_url: str, tmp_path: Path
) -> None:
    name = topology.INTERACTIONS.name
    with closing(pika.BlockingConnection(pika.URLParameters(amqp_url))) as connection:
        channel = connection.channel()
        channel.queue_declare(name, durable=True)
        for _ in range(100):
            channel.basic_publish("", name, b"{}", pika.BasicProperties(delivery_mode=2))

        ended = command("workers", env=embedded(tmp_path, GEMHOOKS_BROKER_URL=amqp_url))

        assert_one_sentence(ended, name, "x-queue-type")
        assert ended.returncode == MISCONFIGURED
        assert channel.queue_declare(name, passive=True).method.message_count == 100


@pytest.mark.parametrize(
    "arguments", [("dlq", "list"), ("receiver",), ("simulate", "--port", "PORT")], ids=" ".join
)
def test_a_mistake_is_told_by_its_sentence_alone(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = str(taken.getsockname()[1])
        env = embedded(tmp_path, GEMHOOKS_PORT=number)
        if arguments[0] == "dlq":
            env["GEMHOOKS_BROKER_URL"] = "amqp://u:hush@127.0.0.1:1/"
        named = [number if each == "PORT" else each for each in arguments]
        ended = command("gemhooks", *named, env=env)

    told = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    logged = [line for line in ended.stderr.splitlines() if "unreachable" in line]
    assert ended.returncode == 2 or arguments[0] == "dlq"
    assert len(told) == 1, ended.stderr
    assert "attempting" not in told[0]
    assert logged == []


def test_a2_17_a_wrong_password_or_vhost_is_no_broker_that_is_away(
    amqp_url: str, tmp_path: Path
) -> None:
    right = urlsplit(amqp_url)
    wrong = right._replace(netloc=f"guest:hush@{right.hostname}:{right.port}").geturl()
    for url, word in ((wrong, "password"), (right._replace(path="/nowhere").geturl(), "host")):
        ended = command("gemhooks", "dlq", "list", env=embedded(tmp_path, GEMHOOKS_BROKER_URL=url))

        assert_one_sentence(ended, word)
        assert "hush" not in ended.stdout + ended.stderr
