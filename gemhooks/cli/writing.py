"""Files that commands write for people: whole, or not there."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gemhooks.errors import Misconfigured


@contextmanager
def aside(target: Path) -> Iterator[BinaryIO]:
    """A file that gets the name *target* at the end of the block, unless that fails.

    Raises Misconfigured where it cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".aside-")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Misconfigured(f"{target} can't be written: {error.strerror}.") from None
