import errno
import threading
from pathlib import Path

import pytest

from gemhooks.results.flushing import ENOUGH, Flusher
from tests.services.waiting import eventually


class Disk:
    """Counts flushes; each lasts until it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.goes_on = threading.Event()

    def sync(self, _descriptor: int) -> None:
        self.begun += 1
        self.goes_on.wait(30)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "partial").touch()
    return tmp_path / "partial"


def test_the_writer_goes_on_while_the_disk_is_at_it(path: Path) -> None:
    disk = Disk()
    flusher = Flusher(path, sync=disk.sync)
    for _ in range(5):
        flusher.wrote(ENOUGH)

    eventually(lambda: disk.begun == 1)
    flusher.wrote(ENOUGH)  # here by now: nothing has waited
    disk.goes_on.set()
    flusher.close()

    assert disk.begun == 1


def test_a_little_is_left_for_the_end(path: Path) -> None:
    disk = Disk()
    flusher = Flusher(path, sync=disk.sync)
    flusher.wrote(ENOUGH - 1)
    flusher.close()

    assert disk.begun == 0


def test_what_came_during_one_flush_has_the_next(path: Path) -> None:
    disk = Disk()
    disk.goes_on.set()
    flusher = Flusher(path, sync=disk.sync)

    def flushed_twice() -> bool:
        flusher.wrote(ENOUGH)
        return disk.begun >= 2

    eventually(flushed_twice)
    flusher.close()


def test_the_end_waits_for_what_is_under_way(path: Path) -> None:
    disk = Disk()
    flusher = Flusher(path, sync=disk.sync)
    flusher.wrote(ENOUGH)
    eventually(lambda: disk.begun == 1)
    end = threading.Thread(target=flusher.close)
    end.start()

    end.join(0.05)
    assert end.is_alive()
    disk.goes_on.set()
    end.join(30)
    assert not end.is_alive()


def test_a_disk_that_fails_is_the_writers_to_notice(path: Path) -> None:
    tried = threading.Event()

    def full(_descriptor: int) -> None:
        tried.set()
        raise OSError(errno.EIO, "broken")

    flusher = Flusher(path, sync=full)
    flusher.wrote(ENOUGH)

    assert tried.wait(30)
    flusher.close()
