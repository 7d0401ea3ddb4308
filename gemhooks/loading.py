"""Objects of the user's own code, by name: ``package.module:name``."""

import importlib
import os
import sys
from typing import Any, TypeVar

from gemhooks.errors import Misconfigured

T = TypeVar("T")


def load(target: str, kind: type[T], *, default: str) -> T:
    """The *kind* of object that *target* names, *default* where it names only a module.

    Looked for in the present folder, too. Raises Misconfigured where it is not there; what the
    module itself raises is its author's to see.
    """
    module_name, _, name = target.partition(":")
    name = name or default
    found = find(f"{module_name}:{name}")
    if not isinstance(found, kind):
        raise Misconfigured(f"{module_name} has no {kind.__name__} object called {name!r}.")
    return found


def find(target: str) -> Any:
    """Whatever ``package.module:name`` names, None where the module has no such name."""
    module_name, _, name = target.partition(":")
    return getattr(_module(module_name), name or "", None)


def _module(name: str) -> Any:
    here = os.getcwd()  # noqa: PTH109 - sys.path holds texts
    if not {here, ""} & set(sys.path):
        sys.path.append(here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # a mistake inside the module: its traceback is what the author needs
        raise Misconfigured(f"there is no module {name!r} in {here}.") from None
    except (ValueError, TypeError) as error:  # an empty name, a relative one
        if name and not name.startswith("."):
            raise
        raise Misconfigured(f"{name!r} is not the name of a module.") from error
