"""What is released is whole, holds nothing else, and runs where the clone is not."""

import subprocess
import sysconfig
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from release import archives, tree, trial
from release.archives import Built
from tests.integration.processes import ROOT


@pytest.fixture(scope="module")
def version() -> str:
    return tree.version_of(ROOT)


@pytest.fixture(scope="module")
def built(version: str, tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("release")
    return archives.build(ROOT, version, folder / "dist", folder / "scratch")


def test_the_archives_hold_what_they_should(built: Built, version: str) -> None:
    archives.check(built, version)

    assert built.wheel.name == f"gemhooks-{version}-py3-none-any.whl"
    assert built.context.stat().st_size > 0


def test_a_wheel_with_an_application_in_it_is_refused(
    built: Built, version: str, tmp_path: Path
) -> None:
    wheel = tmp_path / built.wheel.name
    wheel.write_bytes(built.wheel.read_bytes())
    with zipfile.ZipFile(wheel, "a") as more:
        more.writestr("workers/__init__.py", "")

    with pytest.raises(tree.NotReady, match="workers"):
        archives.check(replace(built, wheel=wheel), version)


def test_the_wheel_runs_a_consumer_beside_a_workers_package_of_the_users_own(
    built: Built, tmp_path: Path
) -> None:
    trial.run(built.wheel, tmp_path, packages=Path(sysconfig.get_path("purelib")))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A tagged tree with a CHANGELOG."""
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n', "utf-8")
    (tmp_path / "CHANGELOG.md").write_text("# C\n\n## 1.2.0 (today)\n\n- it\n\n## 1.1.0\n", "utf-8")
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    git(tmp_path, "tag", "v1.2.0")
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "tag.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--no-gpg-sign", "-m", "c")


def test_a_tagged_and_described_tree_is_released_as_its_version(clone: Path) -> None:
    assert tree.checked(clone) == "1.2.0"
    assert tree.changes_in(clone, "1.2.0") == "- it"


def changed(folder: Path) -> None:
    (folder / "new").touch()


def later(folder: Path) -> None:
    changed(folder)
    commit(folder)


def silent(folder: Path) -> None:
    (folder / "CHANGELOG.md").write_text("## 1.2.0\n\n## 1.1.0\n\n- old\n", "utf-8")
    commit(folder)
    git(folder, "tag", "-f", "v1.2.0")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [(changed, "has changes"), (later, "no tag of this commit"), (silent, "says nothing")],
)
def test_anything_else_is_not(clone: Path, spoil: Callable[[Path], None], said: str) -> None:
    spoil(clone)

    with pytest.raises(tree.NotReady, match=said):
        tree.checked(clone)
