"""Whether the tree may be released, and as which version."""

import re
import subprocess
import tomllib
from pathlib import Path


class NotReady(Exception):
    """One sentence: what is missing for a release."""


def checked(root: Path) -> str:
    """The version in pyproject.toml, which the tag and the CHANGELOG name too; else NotReady."""
    version = version_of(root)
    if git(root, "status", "--porcelain"):
        raise NotReady("the tree has changes: commit or stash them.")
    tags = git(root, "tag", "--points-at", "HEAD").split()
    if f"v{version}" not in tags:
        raise NotReady(f"the version is {version}, but v{version} is no tag of this commit.")
    if not changes_in(root, version):
        raise NotReady(f"CHANGELOG.md says nothing under '## {version}'.")
    return version


def version_of(root: Path) -> str:
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


def changes_in(root: Path, version: str) -> str:
    """The CHANGELOG's section of that version."""
    text = (root / "CHANGELOG.md").read_text("utf-8")
    found = re.search(
        rf"^## {re.escape(version)}\b[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    return found[1].strip() if found else ""


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NotReady(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()
