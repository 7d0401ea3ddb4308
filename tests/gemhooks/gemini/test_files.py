from collections.abc import Iterator
from contextlib import closing

import pytest

from gemhooks.errors import Refused, Retry
from gemhooks.gemini.files import Files, Shorter
from gemhooks.gemini.rest import Rest
from tests.gemhooks.gemini.scripted import ScriptedServer

KEY = "AIza-not-a-real-key-0123456789"


@pytest.fixture
def files(server: ScriptedServer) -> Iterator[Files]:
    with closing(Rest(KEY, base_url=server.url, timeout=60.0)) as rest:
        yield Files(rest)


def read(files: Files, source: str, start: int = 0) -> bytes:
    with files.open(source, start=start) as download:
        return b"".join(download.chunks)


@pytest.mark.parametrize(
    "source",
    [
        "files/batch-abc",
        "https://generativelanguage.googleapis.com/v1beta/files/batch-abc",
        "https://generativelanguage.googleapis.com/v1/files/batch-abc:download?alt=media",
        "https://generativelanguage.googleapis.com/download/v1beta/files/batch-abc:download",
    ],
)
def test_every_address_of_a_file_is_the_file(
    server: ScriptedServer, files: Files, source: str
) -> None:
    server.answer(200, b"bytes")

    assert read(files, source) == b"bytes"
    assert server.seen == [("GET", "/v1/files/batch-abc:download?alt=media", KEY)]


@pytest.mark.parametrize(
    "source", ["gs://b/x", "files/../x", "x", "", "https://evil.test/v1/files/a", "file:///etc/x"]
)
def test_other_places_are_refused_unasked(
    server: ScriptedServer, files: Files, source: str
) -> None:
    with pytest.raises(Refused):
        read(files, source)

    assert not server.seen


def test_a_part_says_where_it_begins_and_how_long_the_whole_is(
    server: ScriptedServer, files: Files
) -> None:
    server.answer(206, b"tes", Content_Range="bytes 2-4/5", ETag='"v1"')

    with files.open("files/a", start=2) as download:
        assert (download.start, download.total, download.version) == (2, 5, '"v1"')
        assert b"".join(download.chunks) == b"tes"


def test_a_server_that_knows_no_ranges_begins_at_the_beginning(
    server: ScriptedServer, files: Files
) -> None:
    server.answer(200, b"bytes")

    with files.open("files/a", start=2) as download:
        assert (download.start, download.total) == (0, 5)


@pytest.mark.parametrize("told", ["", "bytes 0-4/5", "bytes 2-4/*", "bytes x"])
def test_a_part_of_something_else_is_not_taken(
    server: ScriptedServer, files: Files, told: str
) -> None:
    server.answer(206, b"tes", Content_Range=told)

    with pytest.raises(Retry, match="does not begin"):
        read(files, "files/a", start=2)


def test_a_file_that_ends_before_is_shorter(server: ScriptedServer, files: Files) -> None:
    server.answer(416, b"")

    with pytest.raises(Shorter):
        read(files, "files/a", start=2)


def test_a_connection_that_is_cut_is_a_retry(server: ScriptedServer, files: Files) -> None:
    server.answer(200, b"half", Content_Length="8")

    with pytest.raises(Retry):
        read(files, "files/a")


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "identity, gzip", "x"])
@pytest.mark.parametrize(("status", "start"), [(200, 0), (200, 2), (206, 2)])
def test_bytes_in_another_encoding_than_asked_for_are_not_taken(
    server: ScriptedServer, files: Files, encoding: str, status: int, start: int
) -> None:
    told = {"Content_Encoding": encoding, "Content_Range": "bytes 2-4/5"}
    server.answer(status, b"tes", **told)

    with pytest.raises(Retry, match="encoded"):
        read(files, "files/a", start=start)


@pytest.mark.parametrize("encoding", ["", " ", "identity", "Identity"])
def test_an_encoding_that_is_none_is_taken(
    server: ScriptedServer, files: Files, encoding: str
) -> None:
    server.answer(200, b"bytes", Content_Encoding=encoding)

    assert read(files, "files/a") == b"bytes"
