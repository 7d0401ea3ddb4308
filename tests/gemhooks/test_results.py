import errno
import os
from pathlib import Path

import pytest

from gemhooks.errors import Misconfigured, Retry
from gemhooks.results import ResultsStore, safe_id


def test_what_was_written_is_read_and_lies_where_the_url_says(tmp_path: Path) -> None:
    store = ResultsStore(str(tmp_path))

    url = store.write("interactions", "int_1", "json", b"{}")

    assert url == f"file://{tmp_path}/interactions/int_1.json"
    assert store.read("interactions", "int_1", "json") == b"{}"


def test_a_function_that_changes_the_folder_changes_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = ResultsStore("results", spool="spool")
    monkeypatch.chdir(elsewhere)

    url = store.write("interactions", "int_1", "json", b"{}")

    assert url == f"file://{tmp_path}/results/interactions/int_1.json"
    assert not list(elsewhere.iterdir())


def test_nothing_is_read_where_nothing_was_written(tmp_path: Path) -> None:
    assert ResultsStore(str(tmp_path)).read("interactions", "int_1", "json") is None


@pytest.mark.parametrize("hostile", ["../../etc/x", "a/b", "", ".", "a\0b", "x" * 121, "ü", "a\n"])
def test_no_id_leads_out_of_the_folder(tmp_path: Path, hostile: str) -> None:
    store = ResultsStore(str(tmp_path / "root"))

    store.write("interactions", hostile, "json", b"1")

    written = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert [each.parent for each in written] == [tmp_path / "root" / "interactions"]
    assert written[0].name == f"{safe_id(hostile)}.json"
    assert written[0].name.startswith("x-")


def test_identical_content_is_not_written_again(tmp_path: Path) -> None:
    store = ResultsStore(str(tmp_path))
    store.write("interactions", "int_1", "json", b"1")
    before = (tmp_path / "interactions" / "int_1.json").stat()

    store.write("interactions", "int_1", "json", b"1")

    after = (tmp_path / "interactions" / "int_1.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_other_content_replaces_and_leaves_nothing_aside(tmp_path: Path) -> None:
    store = ResultsStore(str(tmp_path))
    store.write("interactions", "int_1", "json", b"1")

    store.write("interactions", "int_1", "json", b"2")

    assert store.read("interactions", "int_1", "json") == b"2"
    assert os.listdir(tmp_path / "interactions") == ["int_1.json"]  # noqa: PTH208 - dot files too


def test_a_full_disk_is_tried_later_and_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = ResultsStore(str(tmp_path))
    store.write("interactions", "int_1", "json", b"1")
    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(Retry, match="the disk is full"):
        store.write("interactions", "int_1", "json", b"2")

    assert store.read("interactions", "int_1", "json") == b"1"
    assert os.listdir(tmp_path / "interactions") == ["int_1.json"]  # noqa: PTH208 - dot files too


def test_a_place_that_is_no_folder_is_tried_later(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(Retry, match="cannot be stored"):
        ResultsStore(str(tmp_path / "file")).write("interactions", "int_1", "json", b"1")


def test_another_filesystem_is_written_aside_too() -> None:
    store = ResultsStore("memory://results-test")

    url = store.write("interactions", "int_1", "json", b"1")
    store.write("interactions", "int_1", "json", b"2")

    assert url == "memory:///results-test/interactions/int_1.json"
    assert store.read("interactions", "int_1", "json") == b"2"


def test_a_driver_that_is_not_installed_is_named() -> None:
    with pytest.raises(Misconfigured, match=r"\(abfs\) cannot be used: Install adlfs") as caught:
        ResultsStore("abfs://someone:hunter2@store/x")

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["", " ", "nowhere://secret:word@x"])
def test_a_url_that_cannot_be_is_told_at_once_and_not_shown(url: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        ResultsStore(url)

    assert "secret" not in str(caught.value)


def test_words_of_a_payload_are_no_kind(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="words of ours"):
        ResultsStore(str(tmp_path)).write("../x", "int_1", "json", b"1")


def test_a_large_result_is_visible_only_when_it_is_whole(tmp_path: Path) -> None:
    store = ResultsStore(str(tmp_path))
    with store.partial("batches", "b1", "rows.jsonl") as partial:
        partial.write(b"half")
    assert store.find("batches", "b1", "rows.jsonl") is None

    with store.partial("batches", "b1", "rows.jsonl") as partial:
        assert partial.tail(2) == b"lf"
        partial.write(b" and half")
        url = store.put(partial, "batches", "b1", "rows.jsonl")

    assert url == f"file://{tmp_path}/batches/b1/rows.jsonl"
    assert b"".join(store.chunks("batches", "b1", "rows.jsonl")) == b"half and half"
    found = store.find("batches", "b1", "rows.jsonl")
    assert found is not None
    assert found.size == 13
    assert not list((tmp_path / ".partial").iterdir())


@pytest.mark.parametrize("hostile", ["../../etc/x", "a/b", "..", ".partial", "a\0b"])
def test_no_id_leads_a_large_result_out_of_the_folder(tmp_path: Path, hostile: str) -> None:
    store = ResultsStore(str(tmp_path / "root"))

    with store.partial("batches", hostile, "rows.jsonl") as partial:
        partial.write(b"1")
        store.put(partial, "batches", hostile, "rows.jsonl")

    written = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert written == [tmp_path / "root" / "batches" / safe_id(hostile) / "rows.jsonl"]


def test_what_was_abandoned_is_swept_and_what_is_in_work_is_not(tmp_path: Path) -> None:
    store = ResultsStore(str(tmp_path))
    with store.partial("batches", "old", "rows.jsonl") as partial:
        old = partial.path
    with store.partial("batches", "busy", "rows.jsonl") as busy:
        for path in (old, busy.path):
            os.utime(path, (0, 0))

        with store.partial("batches", "new", "rows.jsonl"):
            assert not old.exists()
            assert busy.path.exists()
