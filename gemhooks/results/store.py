"""The store itself: results under one URL, by kind and id."""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gemhooks.errors import Misconfigured, Retry
from gemhooks.results.partial import Partial
from gemhooks.results.reasons import full_disk_is_a_retry, reason

FOLDERS = ("batches",)  # kinds whose results are a folder each: <kind>/<id>/<suffix>
PARTIAL = ".partial"  # a folder; no kind can have its name
CHUNK = 1 << 20  # bytes
SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,120}")
OUR_WORD = re.compile(r"[a-z][a-z0-9]{0,19}(\.[a-z][a-z0-9]{0,19})?")


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored object; its size is in bytes."""

    url: str
    suffix: str
    size: int


class ResultsStore:
    """Results under one URL, each whole or absent, never half."""

    def __init__(self, url: str, *, spool: str | Path = "gemhooks-data/spool") -> None:
        """*spool* is a local folder, for what is too large to be sent to *url* in one piece."""
        # Absolute from here on: a function may change the folder that they are relative to.
        self._given = str(Path(url).expanduser().absolute()) if _is_a_folder(url) else url
        self._spool = Path(spool).absolute()
        if not _is_a_folder(url):  # where a driver may be missing, it is said at once
            _ = self._place

    @cached_property
    def _place(self) -> tuple[Any, str]:
        return opened(self._given)

    @property
    def _files(self) -> Any:
        return self._place[0]

    @property
    def _root(self) -> str:
        return self._place[1]

    @cached_property
    def _is_local(self) -> bool:
        from fsspec.implementations.local import (  # type: ignore[import-untyped]  # noqa: PLC0415 - see _opened
            LocalFileSystem,
        )

        return isinstance(self._files, LocalFileSystem)

    def write(self, kind: str, resource_id: str, suffix: str, content: bytes) -> str:
        """Store *content* and return its URL; what is there already is not written again.

        Raises Retry where the place cannot be written to at present.
        """
        path = self._path(kind, resource_id, suffix)
        with full_disk_is_a_retry():
            if self._read(path) != content:
                self._replace(path, content)
        return self._url(path)

    def read(self, kind: str, resource_id: str, suffix: str) -> bytes | None:
        """The stored bytes, or None; Retry where the place cannot be read at present."""
        try:
            return self._read(self._path(kind, resource_id, suffix))
        except OSError as error:
            raise Retry(f"the result cannot be read: {reason(error)}") from error

    def find(self, kind: str, resource_id: str, suffix: str) -> Stored | None:
        """What is stored under that name, or None; Retry as :meth:`read`."""
        path = self._path(kind, resource_id, suffix)
        try:
            return Stored(self._url(path), suffix, int(self._files.size(path)))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Retry(f"the result cannot be read: {reason(error)}") from error

    def chunks(self, kind: str, resource_id: str, suffix: str) -> Iterator[bytes]:
        """The stored bytes in pieces. Raises FileNotFoundError where there are none."""
        with self._files.open(self._path(kind, resource_id, suffix), "rb") as file:
            while chunk := file.read(CHUNK):
                yield bytes(chunk)

    def partial(self, kind: str, resource_id: str, suffix: str) -> Partial:
        """The local file in which a large result grows, also across crashes."""
        place = hashlib.sha256(self._root.encode()).hexdigest()[:12]
        path = self._path(kind, resource_id, suffix).removeprefix(self._root).strip("/")
        spool = Path(self._root) / PARTIAL if self._is_local else self._spool
        with full_disk_is_a_retry():
            return Partial.open(spool / f"{place}-{path.replace('/', '-')}")

    def put(self, partial: Partial, kind: str, resource_id: str, suffix: str) -> str:
        """Make a whole *partial* visible under its name, replacing what was there; its URL.

        Returns once it is durable; the partial is gone then.
        """
        path = self._path(kind, resource_id, suffix)
        partial.sync()
        with full_disk_is_a_retry():
            if self._is_local:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                partial.path.replace(path)
                _sync_folder(Path(path).parent)
            else:
                _upload(self._files, partial.path, path)
                partial.discard()
        return self._url(path)

    def _url(self, path: str) -> str:
        return str(self._files.unstrip_protocol(path))

    def _path(self, kind: str, resource_id: str, suffix: str) -> str:
        if not OUR_WORD.fullmatch(kind) or not OUR_WORD.fullmatch(suffix):
            raise ValueError("kind and suffix are words of ours, never of a payload")
        between = "/" if kind in FOLDERS else "."
        return f"{self._root}/{kind}/{safe_id(resource_id)}{between}{suffix}"

    def _read(self, path: str) -> bytes | None:
        try:
            return bytes(self._files.cat_file(path))
        except FileNotFoundError:
            return None

    def _replace(self, path: str, content: bytes) -> None:
        if self._is_local:
            _replace_local(Path(path), content)
        else:
            _replace_remote(self._files, path, content)


def safe_id(resource_id: str) -> str:
    """A file name of its own for every id, whatever is in it."""
    if SAFE_ID.fullmatch(resource_id):
        return resource_id
    return "x-" + hashlib.sha256(resource_id.encode("utf-8", "surrogatepass")).hexdigest()


def _is_a_folder(url: str) -> bool:
    if not url.strip():
        raise Misconfigured("the results URL is empty: give a folder or a URL such as s3://bucket")
    return "://" not in url and "::" not in url


def opened(url: str) -> tuple[Any, str]:
    """fsspec's file system for *url*, and the path in it; Misconfigured where there is none."""
    import fsspec  # type: ignore[import-untyped]  # noqa: PLC0415 - 4 MiB that an idle worker spares

    try:
        files, root = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError, OSError) as error:
        # Neither the URL nor its driver's words: they may hold a password.
        scheme = url.partition("://")[0][:40] if "://" in url else "local"
        is_missing = isinstance(error, ImportError)
        why = str(error) if is_missing else type(error).__name__  # which package to install
        raise Misconfigured(f"the results URL ({scheme}) cannot be used: {why}") from None
    return files, root.rstrip("/")


def _replace_local(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=".aside-")
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(aside).replace(path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Without it the new name itself can be lost with the power."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace_remote(files: Any, path: str, content: bytes) -> None:
    files.makedirs(path.rpartition("/")[0], exist_ok=True)
    aside = f"{path}.aside-{os.urandom(6).hex()}"
    files.pipe_file(aside, content)
    files.mv(aside, path)


def _upload(files: Any, source: Path, path: str) -> None:
    files.makedirs(path.rpartition("/")[0], exist_ok=True)
    aside = f"{path}.aside-{os.urandom(6).hex()}"
    files.put_file(str(source), aside)
    files.mv(aside, path)
