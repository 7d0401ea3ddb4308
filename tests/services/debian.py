"""Programs of another Debian than the machine's, in a folder of the project's own."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.services.errors import MissingServiceError, ServiceError
from tests.services.install import one_at_a_time

ROOTS = Path(__file__).parents[2] / ".work" / "debian"
# In a mount namespace of its own: nothing of it is seen outside, and nothing has to be undone.
ENTER = """
mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" &&
mkdir -p "$0$1" && mount --bind "$1" "$0$1" && exec chroot --userspec="$2" "$0" "${@:3}"
"""


def ensure(suite: str, package: str) -> Path:
    """Return the folder that holds *package* of Debian *suite*, made first if need be."""
    root = ROOTS / f"{suite}-{package}"
    if not root.is_dir():
        _require_root(package)
        root.parent.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(root.with_suffix(".lock")):
            if not root.is_dir():
                _make(root, suite, package)
    return root


def inside(root: Path, uid: int, gid: int, command: Sequence[str | Path]) -> list[str | Path]:
    """The command that runs *command* within *root*; temporary files are the machine's."""
    shared = tempfile.gettempdir()
    return ["unshare", "--mount", "bash", "-c", ENTER, root, shared, f"{uid}:{gid}", *command]


def _require_root(package: str) -> None:
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        raise MissingServiceError(
            f"{package} of another Debian needs root and mmdebstrap (apt-get install mmdebstrap)."
        )


def _make(root: Path, suite: str, package: str) -> None:
    """Aside and renamed, so that an interrupted build is not taken for a whole one."""
    sys.stderr.write(f"Unpacking {package} of Debian {suite} into {root} ...\n")
    aside = root.with_suffix(f".{os.getpid()}")
    command = [
        "mmdebstrap",
        "--quiet",
        "--mode=root",
        "--variant=minbase",
        f"--include={package}",
        '--aptopt=APT::Install-Recommends "false"',
        suite,
        str(aside),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(aside, ignore_errors=True)
        raise ServiceError(f"mmdebstrap failed: {done.stderr.strip()}")
    (aside / "etc/hosts").write_text("127.0.0.1 localhost\n", encoding="ascii")
    aside.rename(root)
