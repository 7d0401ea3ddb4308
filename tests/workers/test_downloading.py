from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemhooks.errors import NotYet, Refused, Retry
from gemhooks.gemini.files import Download
from gemhooks.results import Partial
from tests.workers.fetching import MemoryFiles
from workers import downloading
from workers.downloading import Downloading, NoSink

NAME = "files/a"


class Kept:
    """A sink that keeps all it is fed."""

    def __init__(self) -> None:
        self.content = b""

    def restart(self) -> None:
        self.content = b""

    def feed(self, chunk: bytes, /) -> None:
        self.content += chunk


def download(files: MemoryFiles, path: Path, sink: Kept | None = None) -> tuple[bytes, int]:
    with Partial.open(path) as partial:
        one = Downloading(files, NAME, partial, sink or NoSink(), pause=lambda _: None)
        one.run()
    return path.read_bytes(), one.fetched


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloading, "OVERLAP", 50)
    monkeypatch.setattr(downloading, "WORTH", 1)


@given(
    size=st.integers(0, 5000),
    cuts=st.lists(st.integers(0, 3000), max_size=8),
    piece=st.integers(1, 999),
    ranges=st.booleans(),
    length=st.booleans(),
)
def test_however_it_is_cut_the_bytes_are_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    size: int,
    cuts: list[int],
    piece: int,
    *,
    ranges: bool,
    length: bool,
) -> None:
    whole = bytes(number * 7 % 251 for number in range(size))
    files = MemoryFiles({NAME: whole}, list(cuts), ranges, length, piece=piece)
    path, sink, content = tmp_path_factory.mktemp("x") / "partial", Kept(), b"never whole"

    for _ in range(len(cuts) + 1):  # an attempt that brought nothing ends with a Retry
        sink.restart()
        try:
            content, _ = download(files, path, sink)
            break
        except Retry:
            continue

    assert content == whole
    assert sink.content == whole


def test_what_has_arrived_is_kept_across_processes_and_not_fetched_again(tmp_path: Path) -> None:
    whole = bytes(range(250)) * 40
    path = tmp_path / "partial"
    path.write_bytes(whole[:9000])
    sink = Kept()

    content, fetched = download(MemoryFiles({NAME: whole}), path, sink)

    assert content == whole
    assert sink.content == whole
    assert fetched == len(whole) - 9000 + 50


def test_a_tail_that_a_power_cut_took_shows_and_all_is_fetched_anew(tmp_path: Path) -> None:
    whole = bytes(range(250)) * 40
    path = tmp_path / "partial"
    path.write_bytes(whole[:8990] + bytes(10))

    with pytest.raises(Retry, match="another one than before"):
        download(MemoryFiles({NAME: whole}), path)

    assert download(MemoryFiles({NAME: whole}), path) == (whole, len(whole))


def test_a_file_that_became_shorter_is_fetched_anew(tmp_path: Path) -> None:
    path = tmp_path / "partial"
    path.write_bytes(b"x" * 900)

    with pytest.raises(Retry):
        download(MemoryFiles({NAME: b"x" * 200}), path)

    assert download(MemoryFiles({NAME: b"x" * 200}), path)[0] == b"x" * 200


def test_a_connection_that_brings_nothing_is_left_to_the_schedule(tmp_path: Path) -> None:
    files = MemoryFiles({NAME: b"x" * 100}, cuts=[0])

    with pytest.raises(Retry, match="cut"):
        download(files, tmp_path / "partial")

    assert len(files.opened) == 1


def test_a_file_that_is_not_there_is_not_asked_for_in_a_loop(tmp_path: Path) -> None:
    files = MemoryFiles()

    with pytest.raises(NotYet):
        download(files, tmp_path / "partial")

    assert len(files.opened) == 1


def test_what_is_refused_by_its_first_answer_is_not_read(tmp_path: Path) -> None:
    def refuse(_: Download) -> None:
        raise Refused("no")

    with Partial.open(tmp_path / "partial") as partial:
        one = Downloading(MemoryFiles({NAME: b"x"}), NAME, partial, NoSink(), accept=refuse)
        with pytest.raises(Refused):
            one.run()

        assert partial.size == 0


def test_only_one_process_fetches_a_result(tmp_path: Path) -> None:
    with (
        Partial.open(tmp_path / "partial"),
        pytest.raises(Retry, match="another process") as caught,
    ):
        Partial.open(tmp_path / "partial")

    assert caught.value.after is None  # the schedule is hours; six short waits were minutes
