"""structlog without rich, which it imports wherever it is installed: 6 MiB and 0.1 s a process.

What rich would draw are tracebacks on a terminal; logs.configure() has plain ones. A program that
wants them imports structlog or rich before gemhooks.
"""

import sys
from types import ModuleType


def import_structlog() -> None:
    """Import it, so that whoever does so later finds it as it is now."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    absent: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]  # None: not to be found
    absent["rich"] = None
    try:
        import structlog  # noqa: F401, PLC0415 - the first import is the one that counts
    finally:
        del absent["rich"]


import_structlog()
