"""Lines that are gathered: all of them come out, in order, whatever happens to the process."""

import asyncio
import io
import json
import os
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from gemhooks import lines
from gemhooks.lines import GatheredLines
from tests.integration.processes import script
from tests.services.waiting import eventually

NUMBERS = [b"%d" % number for number in range(300)]


def never(_ring: lines.Call) -> lines.Call:
    """An alarm that does not ring."""
    return lambda: None


class Gone(io.BytesIO):
    """A file whose reader has left."""

    def flush(self) -> None:
        raise BrokenPipeError


class Told(io.BytesIO):
    """A file that tells when it holds what it should."""

    def __init__(self, wanted: list[bytes]) -> None:
        super().__init__()
        self.is_complete, self._wanted = asyncio.Event(), wanted

    def flush(self) -> None:
        if self.getvalue().split() == self._wanted:
            self.is_complete.set()


def test_lines_come_out_by_themselves_and_in_order() -> None:
    file = io.BytesIO()
    subject = GatheredLines(file, lines.by_thread)
    for each in NUMBERS:
        subject.info(each)

    eventually(lambda: file.getvalue().split() == NUMBERS)


def test_on_a_loop_lines_come_out_without_a_thread() -> None:
    file = Told(NUMBERS)

    async def log() -> None:
        subject = GatheredLines(file, lines.on_loop)
        before = set(threading.enumerate())
        for each in NUMBERS:
            subject.info(each)
        await file.is_complete.wait()
        assert set(threading.enumerate()) <= before

    asyncio.run(asyncio.wait_for(log(), 60))


def test_a_line_from_beside_the_loop_or_after_it_is_written_at_once() -> None:
    file = io.BytesIO()

    async def log() -> GatheredLines:
        subject = GatheredLines(file, lines.on_loop)
        await asyncio.to_thread(subject.info, b"beside")
        return subject

    subject = asyncio.run(log())
    assert file.getvalue() == b"beside\n"
    subject.info(b"after")
    assert file.getvalue() == b"beside\nafter\n"


@pytest.mark.parametrize("level", ["warning", "error", "critical"])
def test_what_is_wrong_is_written_at_once_with_all_before_it(level: str) -> None:
    file = io.BytesIO()
    subject = GatheredLines(file, never)
    subject.info(b"before")
    assert not file.getvalue()

    getattr(subject, level)(b"wrong")

    assert file.getvalue() == b"before\nwrong\n"


def test_no_more_than_so_many_lines_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_WAITING", 2)
    file = io.BytesIO()
    subject = GatheredLines(file, never)
    for each in (b"1", b"2", b"3", b"4"):
        subject.info(each)

    assert file.getvalue() == b"1\n2\n3\n"


def test_lines_of_many_threads_are_all_there_once() -> None:
    file = io.BytesIO()
    subject = GatheredLines(file, lines.by_thread)

    def log(first: int) -> None:
        for number in range(first, first + 500):
            subject.info(b"%d" % number)

    threads = [threading.Thread(target=log, args=(first * 500,)) for first in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)

    eventually(lambda: sorted(map(int, file.getvalue().split())) == list(range(4000)))


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_log_that_nobody_reads_stops_no_work(*, is_closed: bool) -> None:
    file = Gone()
    if is_closed:
        file.close()
    subject = GatheredLines(file, never)
    subject.info(b"unread")

    subject.warning(b"unread too")


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """What can be read, without waiting, and where it is written."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    yield reader, writer
    for each in (reader, writer):
        os.close(each)


def read(reader: int) -> bytes:
    """All that is there."""
    found = b""
    with suppress(BlockingIOError):
        while part := os.read(reader, 1 << 16):
            found += part
    return found


def test_for_a_reader_that_stalls_lines_are_kept_in_order(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    subject = GatheredLines(lines.Impatient(writer), never)
    sent = [b"%d" % number + b"x" * 10_000 for number in range(30)]
    for each in sent:
        subject.warning(each)

    found = read(reader)
    assert len(found) < sum(map(len, sent))
    while missing := len(sent) - found.count(b"\n"):
        subject.flush()
        found += read(reader)
        assert len(sent) - found.count(b"\n") < missing
    assert found.split() == sent


def test_what_is_too_much_to_keep_is_dropped_and_told(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MOST_KEPT", 100_000)
    reader, writer = pipe
    subject = GatheredLines(lines.Impatient(writer), never)
    for number in range(30):
        subject.warning(b"%d" % number + b"x" * 10_000)
    found = b""
    while part := read(reader):
        found += part
        subject.flush()

    subject.warning(b"29")
    *kept, told, last = (found + read(reader)).split()

    assert (json.loads(told)["event"], last) == ("log_lines_dropped", b"29")
    assert len(kept) + json.loads(told)["lines"] == 30


def test_a_pipe_whose_reader_has_left_stops_no_work() -> None:
    reader, writer = os.pipe()
    subject = GatheredLines(lines.Impatient(writer), never)
    os.close(reader)

    subject.warning(b"unread")
    subject.warning(b"unread too")
    os.close(writer)


ENDS = {
    "the end of the program": "",
    "an exception": "raise SystemExit(0)",
    "os._exit": "logs.flush(); os._exit(0)",
    "a fork, which says them no second time": (
        "child = os.fork()\nif not child:\n    log.info('of the child'); os._exit(0)\n"
        "os.waitpid(child, 0)"
    ),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_at_the_end_of_a_process_every_line_is_there_once(end: str) -> None:
    code = (
        "import os, structlog; from gemhooks import lines, logs\n"
        "lines.GATHER = 60\n"
        "logs.configure('json', gathered=lines.by_thread)\n"
        "log = structlog.get_logger()\n"
        f"for number in range(500): log.info('line', number=number)\n{end}"
    )
    said = script(code).stderr.splitlines()

    found = [json.loads(line) for line in said]
    assert [line["number"] for line in found if "number" in line] == list(range(500))
    assert len(found) == 500 + ("fork" in end)
