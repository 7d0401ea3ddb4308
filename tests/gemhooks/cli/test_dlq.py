"""``gemhooks dlq`` on both queues, as a person or a script uses it."""

import json
import queue
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pika
import pytest
import structlog
from typer.testing import CliRunner, Result

from gemhooks import topology
from gemhooks.cli import app
from gemhooks.cli.dlq.replay import Fate, Replayer
from gemhooks.errors import Misconfigured
from gemhooks.ledger import open_ledger
from gemhooks.messages import Broker, DeadLetter, Delivery, Message, Seen
from gemhooks.queues import sqlite_rows as rows
from gemhooks.queues.connect import connect
from gemhooks.queues.sqlite import path_of
from tests.gemhooks.queues.helpers import PATIENCE, eventually

QUEUE = topology.BATCHES.name
LETTERS = topology.BATCHES.dead_letters


@pytest.fixture(params=["rabbitmq", "sqlite"])
def env(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """What the command is told, and the tests' own broker too."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # not between the answers
    on_file = f"sqlite:///{tmp_path}/queue.db"
    url = request.getfixturevalue("amqp_url") if request.param == "rabbitmq" else on_file
    return {
        "GEMHOOKS_BROKER_URL": url,
        "GEMHOOKS_DATABASE_URL": f"sqlite:///{tmp_path}/ledger.db",
    }


@pytest.fixture
def broker(env: dict[str, str]) -> Iterator[Broker]:
    broker = connect(env["GEMHOOKS_BROKER_URL"], publish_timeout=PATIENCE)
    broker.declare([topology.BATCHES])
    yield broker
    broker.close()


def event(number: int, kind: str = "batch.failed") -> Message:
    body = json.dumps({"type": kind, "version": "v1", "data": {"id": f"b{number}"}}).encode()
    return Message(f"msg_{number}", kind, body, timestamp=1_700_000_000)


def bury(broker: Broker, *messages: Message, letter: DeadLetter | None = None) -> None:
    """Let *messages* come, and be given up after their second try."""
    received: queue.SimpleQueue[Delivery] = queue.SimpleQueue()
    for message in messages:
        broker.publisher.publish(message.next_attempt(now=1_700_000_001)).result(PATIENCE)
    subscriber = broker.consume(QUEUE, received.put, prefetch=len(messages))
    for _ in messages:
        received.get(timeout=PATIENCE).dead(letter or DeadLetter("gave_up", "ValueError", "a bug"))
    subscriber.stop()
    wait_for(broker, LETTERS, len(messages))


def wait_for(broker: Broker, name: str, count: int) -> None:
    eventually(
        lambda: len(seen(broker, name)) == count,
        why=f"{count} are in {name}",
    )


def seen(broker: Broker, name: str) -> list[Seen]:
    with closing(broker.look(name)) as look:
        return list(look)


def dlq(env: dict[str, str], *arguments: str) -> Result:
    ended = CliRunner().invoke(app, ["dlq", *arguments], env=env)
    if ended.exception and not isinstance(ended.exception, SystemExit | Misconfigured):
        raise ended.exception
    return ended


def ids(env: dict[str, str], *arguments: str) -> list[str]:
    listed: list[dict[str, Any]] = json.loads(dlq(env, "list", *arguments, "--format=json").stdout)
    return [each["id"] for each in listed]


def test_a_letter_says_why_when_where_and_after_how_many_attempts(
    env: dict[str, str], broker: Broker
) -> None:
    bury(broker, event(1))

    (shown,) = json.loads(dlq(env, "show", "msg_1").stdout)

    assert (shown["queue"], shown["attempts"], shown["reason"]) == (QUEUE, 2, "gave_up")
    assert (shown["error_type"], shown["error_message"]) == ("ValueError", "a bug")
    assert shown["first_at"] == "2023-11-14T22:13:21+00:00"
    assert shown["at"] > shown["first_at"]
    assert shown["host"]
    assert shown["body"].encode() == event(1).body


def test_looking_uses_nothing_up(env: dict[str, str], broker: Broker) -> None:
    bury(broker, event(1), event(2))

    for _ in range(3):
        assert ids(env) == ["msg_1", "msg_2"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--queue", "batches"), ["msg_1", "msg_2", "msg_3"]),
        (("--queue", "videos"), []),
        (("--id", "msg_2"), ["msg_2"]),
        (("--type", "batch.expired"), ["msg_3"]),
        (("--type", "batch.*"), ["msg_1", "msg_2", "msg_3"]),
        (("--reason", "rejected"), ["msg_3"]),
        (("--reason", "ValueError"), ["msg_1", "msg_2"]),
        (("--older-than", "1h"), []),
        (("--newer-than", "1h", "--limit", "2"), ["msg_1", "msg_2"]),
    ],
)
def test_letters_are_chosen_by(
    env: dict[str, str], broker: Broker, arguments: Sequence[str], expected: list[str]
) -> None:
    bury(broker, event(1), event(2))
    received: queue.SimpleQueue[Delivery] = queue.SimpleQueue()
    broker.consume(QUEUE, received.put, prefetch=1)
    broker.publisher.publish(event(3, "batch.expired")).result(PATIENCE)
    received.get(timeout=PATIENCE).dead(DeadLetter("rejected", "Reject", "no"))
    wait_for(broker, LETTERS, 3)

    assert ids(env, *arguments) == expected


SHOP = topology.Queue("gemhooks.shop", ())


@pytest.mark.parametrize("command", [("list",), ("replay", "--all"), ("purge", "--all", "--yes")])
def test_where_there_may_be_letters_that_were_not_looked_for_a_person_hears_it(
    amqp_url: str, management_url: str, command: Sequence[str]
) -> None:
    with closing(connect(amqp_url, publish_timeout=PATIENCE)) as broker:
        broker.declare([SHOP])
        broker.send(SHOP.dead_letters, event(1)).result(PATIENCE)
    env = {"GEMHOOKS_BROKER_URL": amqp_url, "GEMHOOKS_LEDGER": "off"}
    all_known = env | {"GEMHOOKS_MANAGEMENT_URL": management_url}

    assert "only the built-in consumers' queues were looked into" in dlq(env, *command).stderr
    assert dlq(env, "list", "--queue", "shop").stderr == ""
    assert ids(env, "--queue", "shop") == ["msg_1"]
    assert dlq(all_known, "list").stderr == ""
    assert ids(all_known) == ["msg_1"]


@pytest.mark.parametrize(
    "command",
    [("list",), ("show", "msg_1"), ("replay",), ("replay", "--force"), ("purge", "--yes")],
)
@pytest.mark.parametrize("name", ["shpo", "batches.dlq", "gemhooks.nosuch"])
def test_a_consumer_that_there_is_none_of_is_a_mistake(
    env: dict[str, str], command: Sequence[str], name: str
) -> None:
    letters = topology.dead_letters(topology.queue_name(name))

    with pytest.raises(Misconfigured, match=f"no queue '{letters}'"):
        raise dlq(env, *command, "--queue", name).exception or OSError


@pytest.mark.parametrize("name", ["shop", "unrouted"])
def test_a_consumer_that_has_no_letters_is_none(
    env: dict[str, str], broker: Broker, name: str
) -> None:
    broker.declare([SHOP])

    assert ids(env, "--queue", name) == []
    assert "no dead letter matches" in dlq(env, "replay", "--queue", name).stdout
    assert "0 purged" in dlq(env, "purge", "--yes", "--queue", name).stdout


def test_a_replay_goes_back_to_its_consumer_only_as_if_it_had_just_come(
    env: dict[str, str], broker: Broker
) -> None:
    other = topology.Queue("gemhooks.other", ((topology.EVENTS, "batch.#"),))
    broker.declare([other])
    bury(broker, event(1))
    before = len(seen(broker, other.name))

    assert "1 replayed" in dlq(env, "replay", "--id", "msg_1").stdout

    wait_for(broker, QUEUE, 1)
    (back,) = seen(broker, QUEUE)
    assert (back.message.id, back.message.body) == ("msg_1", event(1).body)
    assert (back.message.attempt, back.message.first_at, back.message.replay) == (1, 0, 0)
    assert back.message.source == "replay"
    assert not [name for name in back.headers if name.startswith("gemhooks-dead")]
    assert seen(broker, LETTERS) == []
    assert len(seen(broker, other.name)) == before


@pytest.mark.parametrize("key", ["msg_1", "batch.failed:b1"])
def test_what_the_consumer_has_done_is_replayed_only_by_force_with_a_key_of_its_own(
    env: dict[str, str], broker: Broker, key: str
) -> None:
    bury(broker, event(1))
    with closing(open_ledger(env["GEMHOOKS_DATABASE_URL"])) as ledgers:
        ledgers.handled.done(QUEUE, key)

    first = dlq(env, "replay", "--queue", "batches")
    forced = dlq(env, "replay", "--queue", "batches", "--force")

    assert "1 already done" in first.stdout
    assert "--force" in first.stderr
    assert "1 replayed" in forced.stdout
    wait_for(broker, QUEUE, 1)
    (back,) = seen(broker, QUEUE)
    assert (back.message.id, back.message.key) == ("msg_1", "msg_1#1")


def test_an_interrupted_replay_loses_nothing_and_doubles_nothing(broker: Broker) -> None:
    bury(broker, *(event(number) for number in range(6)))

    def interrupted(letters: Iterator[Seen]) -> Iterator[Seen]:
        for _ in range(3):
            yield next(letters)
        raise KeyboardInterrupt

    with closing(broker.look(LETTERS)) as look:
        replayer = Replayer(broker, look, QUEUE, lambda _queue, _key: False)
        with pytest.raises(KeyboardInterrupt):
            list(replayer.replay(interrupted(iter(look))))

    wait_for(broker, LETTERS, 3)
    wait_for(broker, QUEUE, 3)
    everywhere = [each.message.id for each in (*seen(broker, QUEUE), *seen(broker, LETTERS))]
    assert sorted(everywhere) == [f"msg_{number}" for number in range(6)]


def test_a_letter_whose_queue_does_not_take_it_stays_a_letter(broker: Broker) -> None:
    bury(broker, event(1))
    with closing(broker.look(LETTERS)) as look:
        replayer = Replayer(broker, look, "gemhooks." + "x" * 300, lambda _queue, _key: False)
        fates = list(replayer.replay(look))

    assert fates == [Fate.FAILED]
    wait_for(broker, LETTERS, 1)


def test_a_letter_whose_queue_is_gone_stays_a_letter_until_it_is_there_again(
    env: dict[str, str],
) -> None:
    url = env["GEMHOOKS_BROKER_URL"]
    with closing(connect(url, publish_timeout=PATIENCE)) as broker:
        broker.declare([SHOP])
        broker.send(SHOP.dead_letters, event(1)).result(PATIENCE)
    delete(url, SHOP.name)

    refused = dlq(env, "replay", "--queue", "shop")

    assert (refused.exit_code, "1 failed (returned)" in refused.stdout) == (1, True)
    assert ids(env, "--queue", "shop") == ["msg_1"]
    with closing(connect(url, publish_timeout=PATIENCE)) as broker:
        broker.declare([SHOP])
        assert "1 replayed" in dlq(env, "replay", "--queue", "shop").stdout
        wait_for(broker, SHOP.name, 1)


def delete(url: str, name: str) -> None:
    """That queue, and none of its letters, as a person would."""
    if url.startswith("amqp"):
        with closing(pika.BlockingConnection(pika.URLParameters(url))) as connection:
            connection.channel().queue_delete(name)
    else:
        with closing(rows.connect(path_of(url))) as db:
            rows.forget(db, name)


def test_what_no_queue_wanted_can_be_replayed_once_one_wants_it(
    env: dict[str, str], broker: Broker
) -> None:
    broker.publisher.publish(event(1, "late.comer")).result(PATIENCE)
    late = topology.Queue("gemhooks.late", ((topology.EVENTS, "late.*"),))
    broker.declare([late])

    assert "1 replayed" in dlq(env, "replay", "--queue", "unrouted").stdout

    wait_for(broker, late.name, 1)
    assert seen(broker, topology.UNROUTED) == []


def test_purging_takes_what_was_meant_and_nothing_else(env: dict[str, str], broker: Broker) -> None:
    bury(broker, event(1), event(2))

    assert "1 purged" in dlq(env, "purge", "--id", "msg_1", "--yes").stdout

    wait_for(broker, LETTERS, 1)
    assert ids(env) == ["msg_2"]


@pytest.mark.parametrize("option", ["--queue", "--id", "--type", "--reason", "--older-than"])
def test_an_option_that_a_script_left_empty_does_not_mean_all_letters(
    env: dict[str, str], broker: Broker, option: str
) -> None:
    bury(broker, event(1))
    with pytest.raises(Misconfigured, match=f"{option} is empty"):
        raise dlq(env, "purge", "--type", "#", "--yes", option, "").exception or OSError
    assert ids(env) == ["msg_1"]


def test_more_letters_than_a_database_can_count_are_a_mistake(env: dict[str, str]) -> None:
    assert dlq(env, "list", "--limit", "9" * 30).exit_code == 2


@pytest.mark.parametrize("command", ["replay", "purge"])
def test_all_letters_must_be_asked_for_by_name(env: dict[str, str], command: str) -> None:
    with pytest.raises(Misconfigured, match="--all"):
        raise dlq(env, command, "--yes" if command == "purge" else "--force").exception or OSError


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("list", "--older-than", "soon"), "--older-than"), (("show", "msg_0"), "msg_0")],
)
def test_a_mistake_is_one_sentence(
    env: dict[str, str], arguments: Sequence[str], words: str
) -> None:
    with pytest.raises(Misconfigured, match=words):
        raise dlq(env, *arguments).exception or OSError
