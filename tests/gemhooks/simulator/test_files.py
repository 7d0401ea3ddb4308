"""Uploads, downloads and parts of them, driven by the official client."""

import io
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
from google import genai
from google.genai.errors import ClientError
from hypothesis import given
from hypothesis import strategies as st

from gemhooks.simulator import Simulator, Variants
from gemhooks.simulator.contents import Content, Film, OnDisk
from gemhooks.simulator.plans import BatchPlan
from gemhooks.simulator.rows import MadeUpRows

KEY = {"x-goog-api-key": "any"}


@pytest.fixture
def http() -> Iterator[urllib3.PoolManager]:
    with urllib3.PoolManager(headers=KEY) as http:
        yield http


def upload(client: genai.Client, data: bytes = b"hello") -> str:
    uploaded = client.files.upload(file=io.BytesIO(data), config={"mime_type": "text/plain"})
    return uploaded.name or ""


def test_a_file_goes_up_in_pieces(client: genai.Client, tmp_path: Path) -> None:
    path = tmp_path / "big.bin"
    path.write_bytes(random.Random(1).randbytes(9 << 20))  # two pieces of the official client
    config = {"mime_type": "application/x-big", "display_name": "big", "name": "files/my-big"}
    uploaded = client.files.upload(file=path, config=config)  # type: ignore[arg-type]  # a dict is fine
    seen = client.files.get(name="files/my-big")
    assert (seen.size_bytes, seen.mime_type, seen.display_name) == (
        9 << 20,
        "application/x-big",
        "big",
    )
    assert (seen.state, seen.source, seen.sha256_hash) == (
        "ACTIVE",
        "UPLOADED",
        uploaded.sha256_hash,
    )


def test_files_are_listed_in_pages_to_the_end(client: genai.Client) -> None:
    names = [upload(client) for _ in range(3)]
    assert [file.name for file in client.files.list(config={"page_size": 2})] == names


def test_a_deleted_file_is_gone(client: genai.Client) -> None:
    name = upload(client)
    client.files.delete(name=name)
    with pytest.raises(ClientError) as raised:
        client.files.get(name=name)
    assert raised.value.code == 404


def test_missing_and_forbidden_files_may_look_alike(
    client: genai.Client, gemini: Simulator
) -> None:
    gemini.variants = Variants(missing_file=403)
    with pytest.raises(ClientError) as raised:
        client.files.get(name="files/nothing")
    assert (raised.value.code, raised.value.status) == (403, "PERMISSION_DENIED")


def test_an_uploaded_file_cannot_be_downloaded(client: genai.Client) -> None:
    with pytest.raises(ClientError, match="Only generated"):
        client.files.download(file=upload(client))


def test_the_output_of_a_batch_cannot_be_looked_at(client: genai.Client) -> None:
    with pytest.raises(ClientError, match="40 characters"):
        client.files.get(name=f"files/batch-{'a' * 36}")


def test_a_name_can_be_taken_once(client: genai.Client) -> None:
    config = {"mime_type": "text/plain", "name": "files/mine"}
    client.files.upload(file=io.BytesIO(b"1"), config=config)  # type: ignore[arg-type]
    with pytest.raises(ClientError) as raised:
        client.files.upload(file=io.BytesIO(b"2"), config=config)  # type: ignore[arg-type]
    assert (raised.value.code, raised.value.status) == (409, "ALREADY_EXISTS")


def test_an_upload_goes_on_where_it_stopped(gemini: Simulator, http: urllib3.PoolManager) -> None:
    url = begin(gemini, http)
    send(http, url, "upload", 0, b"hel")
    asked = send(http, url, "query", 0, b"")
    assert asked.headers["X-Goog-Upload-Size-Received"] == "3"
    assert send(http, url, "upload", 2, b"lo").status == 400
    done = send(http, url, "upload, finalize", 3, b"lo")
    assert done.headers["X-Goog-Upload-Status"] == "final"
    assert done.json()["file"]["sizeBytes"] == "5"
    assert send(http, url, "query", 0, b"").status == 404


def begin(gemini: Simulator, http: urllib3.PoolManager) -> str:
    started = send(http, f"{gemini.url}/upload/v1beta/files", "start", 0, b"{}")
    assert started.headers["X-Goog-Upload-Status"] == "active"
    return started.headers["X-Goog-Upload-URL"]


def send(
    http: urllib3.PoolManager, url: str, command: str, offset: int, body: bytes
) -> urllib3.BaseHTTPResponse:
    headers = KEY | {"X-Goog-Upload-Command": command, "X-Goog-Upload-Offset": str(offset)}
    return http.request("POST", url, body=body, headers=headers)


@given(start=st.integers(0, 5000), stop=st.integers(0, 5000), rows=st.integers(1, 9))
def test_made_up_rows_are_the_same_in_parts(start: int, stop: int, rows: int) -> None:
    plan = BatchPlan(rows=rows, row_bytes=511, fail_every=3, malformed_every=4)
    content = MadeUpRows(plan, "models/m")
    whole = read(content, 0, content.size)
    assert len(whole) == content.size == rows * 511
    assert read(content, start, stop) == whole[start:stop]


@given(start=st.integers(0, 5000), stop=st.integers(0, 5000), size=st.integers(0, 4000))
def test_a_film_is_the_same_in_parts(start: int, stop: int, size: int) -> None:
    content = Film(size)
    whole = read(content, 0, size)
    assert len(whole) == size
    assert read(content, start, stop) == whole[start:stop]


def test_a_file_on_disk_is_read_from_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 3000)
    content = OnDisk(path)
    assert read(content, 255, 600_000) == path.read_bytes()[255:600_000]
    content.drop()
    assert not path.exists()


def read(content: Content, start: int, stop: int) -> bytes:
    return b"".join(content.read(start, stop))
