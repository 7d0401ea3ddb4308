"""The private folder of a service, the programs started from it, and their traceless end."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.services.debian import inside
from tests.services.errors import ServiceError
from tests.services.waiting import wait_until


@dataclass
class Home:
    """A temporary folder, and the account and environment of the programs that live in it."""

    folder: Path
    user: str | None  # None: stay who we are
    environment: Mapping[str, str] = field(default_factory=dict)
    root: Path | None = None  # of another system, where the programs are

    @classmethod
    def make(cls, service: str, user: str, root: Path | None = None) -> "Home":
        """Make the folder; as root it belongs to `user`, as servers refuse to run as root."""
        folder = Path(tempfile.mkdtemp(prefix=f"gemhooks-{service}-"))
        home = cls(folder, _known(user) if os.geteuid() == 0 else None, root=root)
        home.own(folder)
        return home

    def own(self, path: Path) -> None:
        """Give a file or folder to the account of the service."""
        if self.user is not None:
            shutil.chown(path, self.user, self._group())

    def write(self, name: str, text: str, mode: int = 0o600) -> Path:
        """Write a file that the service may read."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        self.own(path)
        return path

    def launch(self, command: Sequence[str | Path]) -> subprocess.Popen[bytes]:
        """Start a program in the background; what it prints goes to the file `console`."""
        with (self.folder / "console").open("ab") as console:
            process: subprocess.Popen[bytes] = subprocess.Popen(  # pyright: ignore[reportAssignmentType]  # not seen through **
                self._command(command),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for pytest, which then stops us in order
                cwd=self.folder,
                env=self._environment(),
                **self._account(),
            )
            return process

    def run(self, command: Sequence[str | Path], seconds: float = 120) -> str:
        """Run a program to its end and return what it printed; a failure carries its complaint."""
        done: subprocess.CompletedProcess[str] = subprocess.run(
            self._command(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            cwd=self.folder,
            env=self._environment(),
            **self._account(),
        )
        if done.returncode != 0:
            raise ServiceError(f"{command[0]} failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def console(self) -> str:
        """Return the last lines that the programs printed: the reason when one did not start."""
        path = self.folder / "console"
        lines = path.read_text("utf-8", "replace").splitlines() if path.exists() else []
        return "\n".join(lines[-30:])

    def remove(self) -> None:
        """End what still runs from this folder, then remove it."""
        # Again and again: what is killed may have started something since it was looked for.
        wait_until(lambda: not self._killed(), f"end of all processes of {self.folder}")
        shutil.rmtree(self.folder)

    def _killed(self) -> list[int]:
        found = processes_of(self.folder)
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return found

    def wait_empty(self) -> None:
        """Wait until no process of this folder is left, helpers of a killed server included."""
        wait_until(lambda: not processes_of(self.folder), f"end of all processes of {self.folder}")

    def _command(self, command: Sequence[str | Path]) -> Sequence[str | Path]:
        if self.root is None or self.user is None:
            return command
        account = pwd.getpwnam(self.user)
        return inside(self.root, account.pw_uid, account.pw_gid, command)

    def _account(self) -> dict[str, Any]:
        """Whom a program runs as; within another system, that is part of its command."""
        if self.user is None or self.root is not None:
            return {}
        return {"user": self.user, "group": self._group(), "extra_groups": []}

    def _group(self) -> int | None:
        # By number: the group of an account need not have its name.
        return None if self.user is None else pwd.getpwnam(self.user).pw_gid

    def _environment(self) -> dict[str, str]:
        """Nothing of the caller's environment but PATH: his settings are not the tests'."""
        path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/usr/bin:/sbin:/bin"
        # HOME is also how a process is known to be ours: see processes_of.
        return {"PATH": path, "LANG": "C.UTF-8", "HOME": str(self.folder), **self.environment}


def _known(user: str) -> str:
    """Another system's service may have no account on this one."""
    try:
        pwd.getpwnam(user)
    except KeyError:
        return "nobody"
    return user


def processes_of(folder: Path) -> list[int]:
    """Return the processes with `folder` in their command line, environment or working folder.

    The folder's name is unique, so each of them was started from it and may be ended. Where there
    is no /proc, none is found, and only the processes we know by their id are waited for.
    """
    mark = os.fsencode(folder)
    return [int(p.name) for p in Path("/proc").glob("[0-9]*") if mark in _traces(p)]


def _traces(process: Path) -> bytes:
    found = b""
    with contextlib.suppress(OSError):  # it may end, or be somebody else's, while we look
        found += (process / "cmdline").read_bytes()
        found += (process / "environ").read_bytes()
        found += os.fsencode((process / "cwd").readlink())
    return found
