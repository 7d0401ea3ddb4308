"""Where fetched results lie: a folder, or any place fsspec has a driver for."""

import errno
import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]  # fsspec ships no types
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]  # idem

from gemhooks.errors import Misconfigured, Retry

SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,120}")
OUR_WORD = re.compile(r"[a-z]{1,20}(\.[a-z]{1,20})?")


class ResultsStore:
    """Results under one URL, each whole or absent, never half."""

    def __init__(self, url: str) -> None:
        self._files, self._root = _opened(url)

    def write(self, kind: str, resource_id: str, suffix: str, content: bytes) -> str:
        """Store *content* and return its URL; what is there already is not written again.

        Raises Retry where the place cannot be written to at present.
        """
        path = self._path(kind, resource_id, suffix)
        try:
            if self._read(path) != content:
                self._replace(path, content)
        except OSError as error:
            raise Retry(f"the result cannot be stored: {_reason(error)}") from error
        return str(self._files.unstrip_protocol(path))

    def read(self, kind: str, resource_id: str, suffix: str) -> bytes | None:
        """The stored bytes, or None; Retry where the place cannot be read at present."""
        try:
            return self._read(self._path(kind, resource_id, suffix))
        except OSError as error:
            raise Retry(f"the result cannot be read: {_reason(error)}") from error

    def _path(self, kind: str, resource_id: str, suffix: str) -> str:
        if not OUR_WORD.fullmatch(kind) or not OUR_WORD.fullmatch(suffix):
            raise ValueError("kind and suffix are words of ours, never of a payload")
        return f"{self._root}/{kind}/{safe_id(resource_id)}.{suffix}"

    def _read(self, path: str) -> bytes | None:
        try:
            return bytes(self._files.cat_file(path))
        except FileNotFoundError:
            return None

    def _replace(self, path: str, content: bytes) -> None:
        if isinstance(self._files, LocalFileSystem):
            _replace_local(Path(path), content)
        else:
            _replace_remote(self._files, path, content)


def safe_id(resource_id: str) -> str:
    """A file name of its own for every id, whatever is in it."""
    if SAFE_ID.fullmatch(resource_id):
        return resource_id
    return "x-" + hashlib.sha256(resource_id.encode("utf-8", "surrogatepass")).hexdigest()


def _opened(url: str) -> tuple[Any, str]:
    if not url.strip():
        raise Misconfigured("the results URL is empty: give a folder or a URL such as s3://bucket")
    try:
        files, root = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError, OSError) as error:
        # Not the URL itself: it may hold a password.
        scheme = url.partition("://")[0][:40] if "://" in url else "local"
        raise Misconfigured(
            f"the results URL ({scheme}) cannot be used: {type(error).__name__}"
        ) from None
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


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "the disk is full"
    if isinstance(error, PermissionError):
        return "permission denied"
    return error.strerror or type(error).__name__
