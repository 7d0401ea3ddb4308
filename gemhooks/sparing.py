"""structlog without what it imports wherever it is installed: 7 MiB and 0.1 s a process.

What rich would draw are tracebacks on a terminal; logs.configure() has plain ones. colorama is for
consoles of Windows. A program that wants them imports structlog before gemhooks.
"""

import sys
from types import ModuleType

SPARED = ("rich",) if sys.platform == "win32" else ("rich", "colorama")


def import_structlog() -> None:
    """Import it, so that whoever does so later finds it as it is now."""
    if "structlog" in sys.modules:
        return
    spared = [name for name in SPARED if name not in sys.modules]
    modules: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]  # None: not to be found
    modules.update(dict.fromkeys(spared))
    try:
        import structlog  # noqa: F401, PLC0415 - the first import is the one that counts
    finally:
        for name in spared:
            del modules[name]


import_structlog()
