"""Where signing secrets are kept: one file, or a folder of files, that receivers read.

Everything is written aside, synced and renamed, with mode 0600: a receiver that looks meanwhile
sees the old or the new, and after a power cut one of them is whole.
"""

import os
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gemhooks import keys, signing
from gemhooks.errors import Misconfigured
from gemhooks.signing import Secret

LONGEST_WRITE = 60.0  # seconds
ASIDE = ".gemhooks-aside-"  # what receivers skip, for its leading dot


@dataclass(frozen=True)
class Held:
    """A secret we hold: its fingerprint, how Gemini lists it, and the file it is in."""

    fingerprint: str
    truncated: str
    path: Path | None = None  # None where it is in the environment

    @classmethod
    def of(cls, secret: Secret, path: Path | None = None) -> "Held":
        return cls(secret.fingerprint, signing.truncated(secret.key), path)


class SecretPlace:
    """A file or a folder; GEMINI_WEBHOOK_SECRET_FILE names the same to the receiver."""

    def __init__(self, path: Path) -> None:
        self._named = str(path)
        self.path = path.resolve()  # a rename must not replace a link to the file
        self.is_folder = self.path.is_dir()

    @classmethod
    def at(cls, text: str) -> "SecretPlace":
        """The place *text* names; one that ends with a slash is a folder, made if missing."""
        path = Path(text)
        try:
            if text.endswith(os.sep):
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise Misconfigured(f"{text} can't be made: {error.strerror}.") from None
        return cls(path)

    @property
    def folder(self) -> Path:
        return self.path if self.is_folder else self.path.parent

    def check(self) -> None:
        """Misconfigured if a secret could not be saved: better before there is one."""
        self.held()
        try:
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=ASIDE)
            os.close(handle)
            Path(name).unlink()
        except OSError as error:
            raise Misconfigured(f"{self._named} can't be written: {error.strerror}.") from None

    def held(self) -> tuple[Held, ...]:
        """What is kept here; Misconfigured where something else than a secret is."""
        if not self.path.exists():
            return ()
        return tuple(
            Held.of(one, file) for file in keys.files_of(self.path) for one in _secrets(file)
        )

    def save(self, secret: str, webhook: str) -> Held:
        """Keep *secret* besides the older ones; OSError where the disk refuses."""
        key = signing.decode_secret(secret)
        mark = signing.fingerprint(key)
        if self.is_folder:
            made = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
            path = self.path / f"{webhook}-{made}-{mark}"
            write_privately(path, secret + "\n")
        else:
            path = self.path
            older = path.read_text("utf-8-sig").split() if path.exists() else []
            write_privately(path, "\n".join([secret, *older]) + "\n")
        return Held(mark, signing.truncated(key), path)

    def sweep(self) -> None:
        """Remove what a crash left half-written; it may hold a secret that nobody needs."""
        for aside in self.folder.glob(f"{ASIDE}*"):
            with suppress(FileNotFoundError):  # another process's, renamed just now
                if time.time() - aside.stat().st_mtime > LONGEST_WRITE:
                    aside.unlink()

    def forget(self, fingerprint: str) -> bool:
        """Remove that secret; whether it was here."""
        for file in keys.files_of(self.path) if self.path.exists() else ():
            if any(one.fingerprint == fingerprint for one in _secrets(file)):
                self._remove(file, fingerprint)
                return True
        return False

    def _remove(self, file: Path, fingerprint: str) -> None:
        entries = file.read_text("utf-8-sig").replace(",", " ").split()
        kept = [each for each in entries if _fingerprint(each) != fingerprint]
        if kept or not self.is_folder:
            write_privately(file, "\n".join(kept) + "\n")
        else:
            file.unlink(missing_ok=True)
            sync_folder(self.folder)


def _secrets(file: Path) -> tuple[Secret, ...]:
    with suppress(OSError):
        if not file.stat().st_size:
            return ()
    return keys.read_secrets("", file)


def _fingerprint(text: str) -> str:
    return signing.fingerprint(signing.decode_secret(text))


def write_privately(path: Path, text: str) -> None:
    """Put *text* at *path*, whole or not at all, readable by its owner only."""
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=ASIDE)  # mode 0600
    try:
        with open(handle, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
            _hand_over(handle, path)
            file.write(text)
            file.flush()
            os.fsync(handle)
        Path(aside).replace(path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _hand_over(handle: int, path: Path) -> None:
    """Root writes for others: a receiver that runs as somebody else must be able to read."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        owner = (path if path.exists() else path.parent).stat()
        os.fchown(handle, owner.st_uid, owner.st_gid)


def sync_folder(folder: Path) -> None:
    """Without it the new name itself can be lost with the power."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
