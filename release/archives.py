"""Built from the commit, not from the folder: what is not in git is in no archive."""

import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from packaging.metadata import Metadata

from release.tree import NotReady, git

NEEDED = ("gemhooks/py.typed", "gemhooks/ledger/migrations/env.py", "gemhooks/testing/plugin.py")


@dataclass(frozen=True)
class Built:
    sdist: Path
    wheel: Path
    context: Path  # what `docker build -f deploy/Dockerfile -` reads


def build(root: Path, version: str, into: Path, scratch: Path) -> Built:
    """The wheel is built from the sdist, so that whoever builds from that gets the same."""
    into.mkdir(parents=True, exist_ok=True)
    context = into / f"gemhooks-{version}-context.tar.gz"
    git(root, "archive", "--format=tar.gz", f"--output={context}", "HEAD")
    tree = _unpacked(context, scratch / "tree")
    sdist = _hatch(tree, "sdist", into / f"gemhooks-{version}.tar.gz")
    unpacked = _unpacked(sdist, scratch / "sdist") / f"gemhooks-{version}"
    wheel = _hatch(unpacked, "wheel", into / f"gemhooks-{version}-py3-none-any.whl")
    return Built(sdist, wheel, context)


def _unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder


def _hatch(tree: Path, target: str, made: Path) -> Path:
    folder = str(made.parent.resolve())
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", folder]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode or not made.exists():
        raise NotReady(f"the {target} can't be built: {(done.stderr or done.stdout).strip()}")
    return made


def check(built: Built, version: str) -> None:
    """NotReady where metadata are not valid, or the wheel holds more than it should, or less."""
    with zipfile.ZipFile(built.wheel) as wheel:
        names = wheel.namelist()
        (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        _check_metadata(wheel.read(about), version)
    tops = {name.partition("/")[0] for name in names}
    if tops != {"gemhooks", f"gemhooks-{version}.dist-info"}:
        raise NotReady(f"the wheel holds {', '.join(sorted(tops))}.")
    if missing := set(NEEDED) - set(names):
        raise NotReady(f"the wheel lacks {', '.join(sorted(missing))}.")
    with tarfile.open(built.sdist) as sdist:
        member = sdist.extractfile(f"gemhooks-{version}/PKG-INFO")
        _check_metadata(member.read() if member else b"", version)


def _check_metadata(raw: bytes, version: str) -> None:
    """By packaging's own rules, which are those of the index."""
    try:
        metadata = Metadata.from_email(raw, validate=True)
    except ExceptionGroup as errors:
        raise NotReady(f"the metadata are not valid: {errors.exceptions[0]}") from None
    if (metadata.name, str(metadata.version)) != ("gemhooks", version) or not metadata.description:
        raise NotReady(f"the metadata are of {metadata.name} {metadata.version}.")
