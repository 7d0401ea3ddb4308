"""What the queue in a file promises beyond what every broker must do."""

import os
import queue
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gemhooks import topology
from gemhooks.errors import Misconfigured, PublishFailed
from gemhooks.messages import DeadLetter, Delivery, Message
from gemhooks.queues import sqlite_rows
from gemhooks.queues.sqlite import SqliteBroker, SqliteSubscriber
from tests.gemhooks.queues.helpers import PATIENCE, eventually

SILENCE = 0.3  # seconds in which nothing may come
QUEUE = topology.BATCHES.name

Received = queue.SimpleQueue[Delivery]
Open = Callable[..., SqliteBroker]
Start = Callable[[str], subprocess.Popen[bytes]]

ROOT = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
def open_broker(path: Path) -> Iterator[Open]:
    made: list[SqliteBroker] = []

    def open_(publish_timeout: float = PATIENCE) -> SqliteBroker:
        made.append(SqliteBroker(f"sqlite:///{path}", publish_timeout=publish_timeout))
        return made[-1]

    yield open_
    for broker in made:
        broker.close()


@pytest.fixture
def broker(open_broker: Open) -> SqliteBroker:
    return open_broker()


def event(number: int = 1, kind: str = "batch.succeeded", body: bytes = b"{}") -> Message:
    return Message(f"msg_{number}", kind, body, timestamp=1_700_000_000)


def publish(broker: SqliteBroker, *messages: Message) -> None:
    for future in [broker.publish(message) for message in messages]:
        future.result(PATIENCE)


def consume(broker: SqliteBroker, name: str = QUEUE, prefetch: int = 10) -> Received:
    received: Received = queue.SimpleQueue()
    broker.consume(name, received.put, prefetch=prefetch)
    return received


def take(received: Received) -> Delivery:
    return received.get(timeout=PATIENCE)


def assert_silent(received: Received) -> None:
    with pytest.raises(queue.Empty):
        received.get(timeout=SILENCE)


@pytest.fixture
def start(path: Path) -> Iterator[Start]:
    """Starts sqlite_process.py in a role, and leaves no process behind."""
    started: list[subprocess.Popen[bytes]] = []
    program = [sys.executable, str(Path(__file__).with_name("sqlite_process.py"))]

    def start_(role: str) -> subprocess.Popen[bytes]:
        command = [*program, role, f"sqlite:///{path}"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, env=environment))
        return started[-1]

    yield start_
    for process in started:
        with process:
            process.kill()


def first_lines(process: subprocess.Popen[bytes], count: int) -> list[str]:
    assert process.stdout
    return [process.stdout.readline().decode().strip() for _ in range(count)]


def kill(process: subprocess.Popen[bytes]) -> list[str]:
    """The lines it still had to tell."""
    os.kill(process.pid, signal.SIGKILL)
    rest, _ = process.communicate()
    return rest.decode().splitlines()


def stored_ids(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT json_extract(properties, '$.id') FROM messages")
        return {name for (name,) in found}


def locked(path: Path) -> sqlite3.Connection:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other


def test_a_confirmed_message_is_committed(broker: SqliteBroker, path: Path) -> None:
    publish(broker, event(1))
    assert stored_ids(path) == {"msg_1"}


def test_a_message_without_a_queue_goes_to_unrouted(broker: SqliteBroker) -> None:
    publish(broker, event(1, "nobody.wants.this"))
    assert [message.id for message, _ in broker.browse(topology.UNROUTED)] == ["msg_1"]


def test_a_result_that_nobody_is_bound_to_is_dropped(broker: SqliteBroker) -> None:
    broker.publish(event(), exchange=topology.RESULTS).result(PATIENCE)
    assert broker.depth(topology.UNROUTED) == 0


def test_a_declared_queue_gets_what_its_pattern_matches(broker: SqliteBroker) -> None:
    broker.declare([topology.Queue("gemhooks.own", ((topology.RESULTS, "batch.#"),))])
    broker.publish(event(1, "batch.row"), exchange=topology.RESULTS).result(PATIENCE)
    assert take(consume(broker, "gemhooks.own")).message.type == "batch.row"


def test_a_message_comes_as_it_was_sent(broker: SqliteBroker) -> None:
    sent = Message(
        "\ud800" * 400, "batch.x", b"\x00{", 3, "2026-01-01T00:00:00Z",
        "text/plain", scheme="v1", trust="hint", attempt=3, replay=2, traceparent="00-ab-cd-01",
    )  # fmt: skip
    publish(broker, sent)
    assert take(consume(broker)).message == sent


def test_messages_come_in_the_order_they_were_published(broker: SqliteBroker) -> None:
    publish(broker, *(event(number) for number in range(50)))
    received = consume(broker, prefetch=100)
    assert [take(received).message.id for _ in range(50)] == [f"msg_{n}" for n in range(50)]


def test_a_handler_that_changes_the_folder_changes_no_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with closing(SqliteBroker("sqlite:///queue.db", publish_timeout=PATIENCE)) as broker:
        received = consume(broker)
        monkeypatch.chdir(elsewhere)
        publish(broker, event())
        take(received).ack()

    assert not list(elsewhere.iterdir())


def test_no_more_than_prefetch_are_unsettled(broker: SqliteBroker) -> None:
    publish(broker, *(event(number) for number in range(3)))
    received = consume(broker, prefetch=2)
    first, _ = take(received), take(received)
    assert_silent(received)
    first.ack()
    assert take(received).message.id == "msg_2"


def test_later_keeps_its_delay_and_blocks_nobody(broker: SqliteBroker) -> None:
    received = consume(broker, prefetch=1)
    publish(broker, event(1))
    delivery = take(received)
    delivery.later(delivery.message.next_attempt(), after=3600)
    publish(broker, event(2))
    other, began = take(received), time.time()
    assert other.message.id == "msg_2"
    other.later(other.message.next_attempt(), after=0.5)
    again = take(received)
    assert (again.message.id, again.message.attempt, again.redelivered) == ("msg_2", 2, False)
    assert time.time() - began >= 0.5


def test_later_survives_a_restart(open_broker: Open) -> None:
    broker = open_broker()
    publish(broker, event())
    delivery = take(consume(broker))
    delivery.later(delivery.message, after=0.2)
    broker.close()
    assert take(consume(open_broker())).message.id == "msg_1"


def test_a_dead_letter_tells_why_and_keeps_its_body(broker: SqliteBroker) -> None:
    publish(broker, event(body=b"\xff\x00"))
    take(consume(broker)).dead(DeadLetter("no such resource", "Gone", "404"))
    eventually(lambda: broker.depth(topology.BATCHES.dead_letters) == 1)
    [(message, headers)] = broker.browse(topology.BATCHES.dead_letters)
    assert (message, broker.depth(QUEUE)) == (event(body=b"\xff\x00"), 0)
    assert headers["gemhooks-dead-reason"] == "no such resource"
    assert headers["gemhooks-dead-queue"] == QUEUE
    assert {"gemhooks-dead-at", "gemhooks-dead-host"} <= set(headers)


def test_what_was_given_back_comes_again_redelivered(broker: SqliteBroker) -> None:
    received = consume(broker)
    publish(broker, event())
    take(received).give_back()
    assert take(received).redelivered


def test_settling_a_row_that_another_has_taken_does_nothing(broker: SqliteBroker) -> None:
    received = consume(broker)
    publish(broker, event())
    first = take(received)
    with closing(sqlite3.connect(broker.path, isolation_level=None)) as db:
        db.execute("UPDATE messages SET owner = NULL")
    take(received)
    first.ack()
    publish(broker, event(2))  # its commit comes after that of the ack
    assert broker.depth(QUEUE) == 2


def test_only_the_first_settlement_counts(broker: SqliteBroker) -> None:
    publish(broker, event())
    delivery = take(consume(broker))
    delivery.ack()
    delivery.dead(DeadLetter("too late"))
    eventually(lambda: broker.depth(QUEUE) == 0)
    assert broker.depth(topology.BATCHES.dead_letters) == 0


def test_two_consumers_share_without_doubling(open_broker: Open) -> None:
    one, other = open_broker(), open_broker()
    seen: queue.SimpleQueue[str] = queue.SimpleQueue()

    def handle(delivery: Delivery) -> None:
        seen.put(delivery.message.id)
        delivery.ack()

    for broker in (one, other):
        broker.consume(QUEUE, handle, prefetch=3)
    publish(one, *(event(number) for number in range(200)))
    assert {seen.get(timeout=PATIENCE) for _ in range(200)} == {f"msg_{n}" for n in range(200)}
    eventually(lambda: one.depth(QUEUE) == 0)
    assert seen.empty()


def test_two_processes_share_without_doubling(broker: SqliteBroker, start: Start) -> None:
    publish(broker, *(event(number) for number in range(500)))
    processes = [start("drain") for _ in range(2)]
    told = [process.communicate(timeout=PATIENCE)[0].decode().split() for process in processes]
    assert Counter(told[0] + told[1]) == Counter(f"msg_{n}" for n in range(500))


def test_what_a_killed_process_held_comes_back_at_once(broker: SqliteBroker, start: Start) -> None:
    publish(broker, event(1), event(2))
    holder = start("hold")
    first_lines(holder, 2)
    received = consume(broker)
    assert_silent(received)
    kill(holder)
    back = [take(received), take(received)]
    assert [(d.message.id, d.redelivered) for d in back] == [("msg_1", True), ("msg_2", True)]


def test_a_frozen_process_keeps_what_it_holds(broker: SqliteBroker, start: Start) -> None:
    publish(broker, event())
    holder = start("hold")
    first_lines(holder, 1)
    os.kill(holder.pid, signal.SIGSTOP)
    assert_silent(consume(broker))
    kill(holder)


def test_files_of_dead_owners_are_removed(open_broker: Open, path: Path, start: Start) -> None:
    publish(open_broker(), event())
    holder = start("hold")
    first_lines(holder, 1)
    kill(holder)
    broker = open_broker()
    take(consume(broker))
    assert [file.name for file in Path(f"{path}.owners").iterdir()] == [broker.owner().name]
    broker.close()
    assert list(Path(f"{path}.owners").iterdir()) == []


def test_it_loses_nothing_when_processes_are_killed_at_random(
    broker: SqliteBroker, path: Path, start: Start
) -> None:
    publish(broker, event())
    chance, confirmed = random.Random(1), set[str]()
    for _ in range(10):
        processes = [start("publish") for _ in range(5)]
        for process in processes:
            confirmed.update(first_lines(process, 1))
        for process in processes:
            time.sleep(chance.uniform(0, 0.05))  # the random moment
            confirmed.update(kill(process))
    assert len(confirmed) >= 50
    assert confirmed <= stored_ids(path)


def test_a_lock_of_another_process_delays_but_loses_nothing(broker: SqliteBroker) -> None:
    publish(broker, event(1))
    with closing(locked(broker.path)) as other:
        future = broker.publish(event(2))
        with pytest.raises(TimeoutError):
            future.result(SILENCE)
        other.execute("ROLLBACK")
        future.result(PATIENCE)
    assert broker.depth(QUEUE) == 2


def test_a_lock_that_stays_fails_publishing_in_bounded_time(open_broker: Open) -> None:
    broker = open_broker(publish_timeout=0.3)
    publish(broker, event(1))
    with closing(locked(broker.path)):
        with pytest.raises(PublishFailed) as caught:
            broker.publish(event(2)).result(PATIENCE)
        assert not broker.is_ready()
    assert caught.value.reason == "timeout"
    eventually(broker.is_ready)
    assert broker.depth(QUEUE) == 1


def test_a_settlement_outlives_a_lock(broker: SqliteBroker) -> None:
    publish(broker, event())
    delivery = take(consume(broker))
    with closing(locked(broker.path)):
        delivery.ack()
        time.sleep(SILENCE)  # longer than one try of the writer
    eventually(lambda: broker.depth(QUEUE) == 0)


def test_closing_ends_in_time_while_the_file_is_locked(open_broker: Open) -> None:
    broker = open_broker()
    publish(broker, event())
    delivery = take(consume(broker))
    with closing(locked(broker.path)):
        delivery.ack()
        broker.close(timeout=0.5)  # the lock stays until it has ended
    assert take(consume(open_broker())).redelivered


def test_retries_that_find_no_room_wait_and_hold_up_no_acks(
    open_broker: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = "PRAGMA max_page_count=40"
    monkeypatch.setattr(sqlite_rows, "PRAGMAS", (*sqlite_rows.PRAGMAS, limit))
    broker = open_broker()
    publish(broker, *(event(number, body=b"x" * 5000) for number in range(10)))
    received = consume(broker)
    taken = [take(received) for _ in range(10)]
    bigger = Message("bigger", "batch.x", b"x" * 90_000)
    taken[0].later(bigger, after=0)
    taken[1].later(bigger, after=0)
    for delivery in taken[2:]:
        delivery.ack()
    eventually(lambda: broker.depth(QUEUE) == 2)  # there is room for one, the other waits


def test_a_full_disk_fails_publishing_and_loses_nothing(
    open_broker: Open, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_rows, "PRAGMAS", (*sqlite_rows.PRAGMAS, "PRAGMA max_page_count=40"))
    broker = open_broker()
    futures = [broker.publish(event(number, body=b"x" * 5000)) for number in range(60)]
    errors = [future.exception(PATIENCE) for future in futures]
    confirmed = {f"msg_{number}" for number, error in enumerate(errors) if error is None}
    assert {error.reason for error in errors if isinstance(error, PublishFailed)} == {"failed"}
    assert stored_ids(path) == confirmed
    assert not broker.is_ready()


def test_room_on_the_disk_heals_it(open_broker: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_rows, "PRAGMAS", (*sqlite_rows.PRAGMAS, "PRAGMA max_page_count=40"))
    broker = open_broker()
    futures = [broker.publish(event(number, body=b"x" * 5000)) for number in range(60)]
    assert any(future.exception(PATIENCE) for future in futures)
    broker.consume(QUEUE, lambda delivery: delivery.ack(), prefetch=10)
    eventually(lambda: broker.depth(QUEUE) == 0)
    eventually(broker.is_ready)
    publish(broker, event())


def test_what_cannot_be_written_fails_alone(broker: SqliteBroker) -> None:
    publish(broker, event(1))
    with closing(locked(broker.path)) as other:  # so that they meet in one transaction
        good = broker.publish(event(2))
        bad = broker.publish(event(3, body=[object()]))  # type: ignore[arg-type]
        other.execute("ROLLBACK")
        assert isinstance(bad.exception(PATIENCE), PublishFailed)
        assert good.result(PATIENCE) is None
    assert stored_ids(broker.path) == {"msg_1", "msg_2"}


def assert_misconfigured(path: Path, sentence: str) -> None:
    broker = SqliteBroker(f"sqlite:///{path}")
    with closing(broker), pytest.raises(Misconfigured, match=sentence):
        broker.check()


def test_check_names_a_missing_folder(tmp_path: Path) -> None:
    assert_misconfigured(tmp_path / "no" / "such" / "queue.db", "No such file or directory")


def test_check_names_a_file_that_is_no_database(path: Path) -> None:
    path.write_text("hello, " * 1000)
    assert_misconfigured(path, "not an SQLite database")


def test_check_names_a_folder_in_place_of_the_file(path: Path) -> None:
    path.mkdir()
    assert_misconfigured(path, "can't be used")


def test_a_message_that_still_has_to_wait_waits(broker: SqliteBroker) -> None:
    received = consume(broker)
    publish(broker, Message("msg_1", "batch.x", b"{}", waiting=1))
    assert_silent(received)
    assert take(received).message.waiting == 0


def test_a_url_without_a_path_is_refused() -> None:
    with pytest.raises(Misconfigured):
        SqliteBroker("sqlite:///")


def test_others_may_not_read_the_files(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "queue.db"
    with closing(SqliteBroker(f"sqlite:///{path}")) as broker:
        publish(broker, event())
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file


@pytest.mark.parametrize("condition", [sqlite_rows.IS_READY, sqlite_rows.IS_DUE])
def test_taking_looks_at_an_index_only(broker: SqliteBroker, condition: str) -> None:
    publish(broker, event())
    with closing(sqlite3.connect(broker.path)) as db:
        query = f"EXPLAIN QUERY PLAN SELECT id FROM messages WHERE {condition}"  # noqa: S608
        plan = db.execute(query, (QUEUE, 0)[: condition.count("?")]).fetchall()
    assert "SEARCH messages USING" in plan[0][3]


def test_a_deleted_file_is_made_anew_and_nothing_is_confirmed_into_the_void(
    broker: SqliteBroker, path: Path
) -> None:
    received = consume(broker)
    publish(broker, event(1))
    take(received)
    delete(path)
    publish(broker, event(2))
    assert stored_ids(path) == {"msg_2"}
    assert take(received).message.id == "msg_2"


@pytest.mark.parametrize("is_made_by_another", [True, False])
def test_a_consumer_that_only_waits_is_bound_in_a_new_file_too(
    open_broker: Open, path: Path, *, is_made_by_another: bool
) -> None:
    """A result that nobody is bound to is confirmed, and gone."""
    results = topology.Queue("gemhooks.mine", ((topology.RESULTS, "#"),))
    waiting, other = open_broker(), open_broker()
    waiting.declare([results])
    received = consume(waiting, results.name)
    tell(other, event(1))
    take(received)  # so it waits, and has nothing to write
    delete(path)
    if is_made_by_another:
        other.declare([])

    eventually(lambda: is_declared(path, results.name), why="it declares its queue again")

    tell(other, event(2))
    assert take(received).message.id == "msg_2"


def test_what_is_taken_while_it_stops_was_never_in_hand(
    broker: SqliteBroker, open_broker: Open
) -> None:
    """Without a ledger, what comes again is held to have killed its process."""
    publish(broker, *(event(number) for number in range(3)))
    received: Received = queue.SimpleQueue()

    def stop(delivery: Delivery) -> None:
        received.put(delivery)
        subscribers.get(timeout=PATIENCE).stop()

    subscribers: queue.SimpleQueue[SqliteSubscriber] = queue.SimpleQueue()
    subscribers.put(broker.consume(QUEUE, stop, prefetch=3))
    first = take(received)
    again = consume(open_broker())

    assert [take(again).redelivered for _ in range(2)] == [False, False]
    first.give_back()
    assert take(again).redelivered


def tell(broker: SqliteBroker, message: Message) -> None:
    broker.publish(message, exchange=topology.RESULTS).result(PATIENCE)


def delete(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        if file.is_file():
            file.unlink()


def is_declared(path: Path, name: str) -> bool:
    try:
        with closing(sqlite_rows.connect(path)) as db:
            return sqlite_rows.is_declared(db, name)
    except sqlite3.OperationalError:  # the file is not there yet, or its tables are not
        return False


def test_an_acknowledgement_does_not_write_its_message_once_more(broker: SqliteBroker) -> None:
    """On a full disk, where somebody reads, what is kept for acknowledgements would not do."""
    log = broker.path.with_name(f"{broker.path.name}-wal")
    broker.declare([])
    with closing(sqlite3.connect(broker.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")  # a backup, say: the log can only grow
        reader.execute("SELECT count(*) FROM messages").fetchall()
        publish(broker, *(event(number, body=bytes(400_000)) for number in range(10)))
        received = consume(broker)
        taken = [take(received) for _ in range(10)]
        before = log.stat().st_size
        for delivery in taken:
            delivery.ack()
        eventually(lambda: broker.depth(QUEUE) == 0)

        assert log.stat().st_size - before < 1_000_000


FULL_DISK = """
import os, sqlite3, subprocess, sys, time
from gemhooks.messages import Message
from gemhooks.queues.sqlite import SqliteBroker
from tests.gemhooks.queues.helpers import PATIENCE, eventually

folder, read_by_another = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "none", folder], check=True)
broker = SqliteBroker(f"sqlite:///{folder}/queue.db", publish_timeout=60)
broker.declare([])
reader = sqlite3.connect(broker.path, isolation_level=None)
if read_by_another == "True":  # a backup, say: SQLite's log can only grow
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM messages").fetchall()
futures = [broker.publish(Message(f"m{n}", "batch.x", bytes(400_000))) for n in range(100)]
errors = [future.exception(60) for future in futures]
confirmed = {f"m{n}" for n, error in enumerate(errors) if error is None}
print(sorted({str(error) for error in errors if error}), broker.is_ready())
done = []
def handle(delivery):
    done.append(delivery.message.id)
    delivery.ack()
broker.consume("gemhooks.batches", handle, prefetch=10)
if read_by_another == "True":
    eventually(lambda: "the disk is full" in str(broker._writer.error))
    reader.rollback()
deadline = time.monotonic() + 60
while (broker.depth("gemhooks.batches") or not broker.is_ready()) and time.monotonic() < deadline:
    time.sleep(0.05)
print(confirmed == set(done), broker.is_ready(), 5 < len(confirmed) < 100)
broker.publish(Message("after", "batch.x", bytes(400_000))).result(60)
broker.close()
"""


@pytest.mark.parametrize("read_by_another", [False, True])
def test_a_full_disk_is_a_clear_error_loses_nothing_and_heals_when_there_is_room(
    tmp_path: Path, *, read_by_another: bool
) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    own = ["unshare", "--map-root-user", "--mount"]  # what is mounted there is seen by nobody else
    command = [*own, sys.executable, "-c", FULL_DISK, str(folder), str(read_by_another)]
    ended = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.stdout.splitlines()[-2:] == [
        "['failed: the disk is almost full'] False",
        "True True True",
    ], ended.stderr
