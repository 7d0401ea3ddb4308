"""``python -m release``: check the tree, build into dist/, check what was built, try it."""

import shutil
import sys
import tempfile
from pathlib import Path

from release import archives, tree, trial

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"


def main() -> None:
    version = tree.checked(ROOT)
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="gemhooks-release-") as scratch:
        built = archives.build(ROOT, version, DIST, Path(scratch))
        archives.check(built, version)
        trial.run(built.wheel, Path(scratch) / "trial")
    for path in (built.sdist, built.wheel, built.context):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size:,} bytes")  # noqa: T201 - for a person


if __name__ == "__main__":
    try:
        main()
    except tree.NotReady as error:
        sys.exit(f"not released: {error}")
