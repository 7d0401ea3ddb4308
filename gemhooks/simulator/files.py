"""The files: what was uploaded, what batches and videos left, and how long they stay."""

import base64
import hashlib
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from gemhooks.simulator.clock import alphanumeric, rfc3339
from gemhooks.simulator.contents import Content, OnDisk
from gemhooks.simulator.refusals import Refusal, invalid
from gemhooks.simulator.shelf import Shelf

KEPT_FOR = 48 * 3600.0  # seconds
LARGEST_UPLOAD = 2 << 30  # bytes
LONGEST_ID = 40  # characters; the outputs of batches are longer, see FileRoutes.get_file
LIGHTEST, HEAVIEST = 1 << 20, 10 << 30  # bytes on disk of one file and of all
MOST_UPLOADS = 100
UPLOADED, GENERATED = "UPLOADED", "GENERATED"


@dataclass(frozen=True, slots=True)
class File:
    id: str
    content: Content
    source: str
    expires: float  # seconds since 1970
    mime_type: str = "application/octet-stream"
    display_name: str | None = None
    sha256: str | None = None
    created: str = field(default_factory=rfc3339)

    @property
    def name(self) -> str:
        return f"files/{self.id}"


class Wanted(BaseModel):
    """What the uploader says of a file. The official client writes camel case, but not always."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = Field(default="", max_length=len("files/") + LONGEST_ID)
    display_name: str | None = Field(
        default=None, validation_alias=AliasChoices("displayName", "display_name")
    )
    mime_type: str = Field(default="", validation_alias=AliasChoices("mimeType", "mime_type"))

    @property
    def id(self) -> str:
        return self.name.removeprefix("files/")


@dataclass(frozen=True, slots=True)
class Upload:
    """A resumable upload under way; *received* bytes have arrived."""

    id: str
    path: Path
    wanted: Wanted
    received: int = 0


class Files:
    """All files; what is on disk is in a folder that ends with this object."""

    def __init__(self) -> None:
        self._files = Shelf[File](
            "File", HEAVIEST, lightest=LIGHTEST, dropped=lambda file: file.content.drop()
        )
        self._uploads = Shelf[Upload]("Upload", MOST_UPLOADS, dropped=_forget)
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._remove: Callable[[], object] = lambda: None

    def add(self, file: File) -> File:
        return self._files.put(file.id, file, file.content.stored)

    def find(self, file_id: str) -> File | None:
        """The file, unless there is none or it has expired."""
        file = self._files.find(file_id)
        if file is not None and file.expires <= time.time():
            self._files.discard(file_id)
            return None
        return file

    def remove(self, file_id: str) -> None:
        self._files.discard(file_id)

    def expire(self, file_id: str) -> None:
        self._files.change(file_id, lambda file: replace(file, expires=0.0))

    def values(self) -> list[File]:
        return [file for file in self._files.values() if file.expires > time.time()]

    def write(self, pieces: Iterable[bytes]) -> OnDisk:
        """Content of the folder, written as *pieces* come."""
        path = self._new_path()
        with path.open("wb") as file:
            file.writelines(pieces)
        return OnDisk(path)

    def begin(self, wanted: Wanted) -> Upload:
        """Start an upload; raises a Refusal with 409 if a file has the wanted name."""
        if wanted.id and self.find(wanted.id):
            raise Refusal(409, f"File {wanted.id} already exists.")
        path = self._new_path()
        path.touch()
        upload = Upload(alphanumeric(24), path, wanted)
        return self._uploads.put(upload.id, upload)

    def receive(self, upload_id: str, offset: int, pieces: Iterable[bytes]) -> Upload:
        """Append what arrives; raises a Refusal if it does not begin where the last part ended."""
        upload = self._uploads.get(upload_id)
        if offset != upload.received:
            raise invalid(f"{upload.received} bytes have arrived, but the offset is {offset}.")
        with upload.path.open("ab") as file:
            for piece in pieces:
                file.write(piece)
            received = file.tell()
        if received > LARGEST_UPLOAD:
            self._uploads.discard(upload_id)
            raise invalid(f"A file may have {LARGEST_UPLOAD} bytes.")
        return self._uploads.change(upload_id, lambda one: replace(one, received=received))

    def upload(self, upload_id: str) -> Upload:
        return self._uploads.get(upload_id)

    def finish(self, upload: Upload) -> File:
        """Make a file of what was uploaded."""
        kept = self._new_path()
        upload.path.rename(kept)  # the upload forgets its own path
        self._uploads.discard(upload.id)
        wanted = upload.wanted
        return self.add(
            File(
                id=wanted.id or alphanumeric(12),
                content=OnDisk(kept),
                source=UPLOADED,
                expires=time.time() + KEPT_FOR,
                mime_type=wanted.mime_type or "application/octet-stream",
                display_name=wanted.display_name,
                sha256=_digest(kept),
            )
        )

    def close(self) -> None:
        """Remove all that is on disk."""
        self._remove()

    def _new_path(self) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="gemhooks-simulator-"))
                # Also when nobody calls close().
                self._remove = weakref.finalize(
                    self, shutil.rmtree, self._folder, ignore_errors=True
                )
        return self._folder / alphanumeric(16)


def _forget(upload: Upload) -> None:
    upload.path.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return base64.b64encode(hashlib.file_digest(file, "sha256").digest()).decode()


def generated(file_id: str, content: Content, mime_type: str, kept_for: float | None) -> File:
    """A file that a job left behind; only such files can be downloaded."""
    expires = time.time() + (KEPT_FOR if kept_for is None else kept_for)
    return File(file_id, content, GENERATED, expires, mime_type)
