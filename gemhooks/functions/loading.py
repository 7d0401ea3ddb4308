"""The user's registry, by its name."""

from gemhooks.errors import Misconfigured
from gemhooks.functions.registry import Functions
from gemhooks.loading import load


def load_functions(target: str) -> Functions:
    """The Functions object that ``package.module:name`` names.

    Raises Misconfigured if there is none, if it is empty, or if it promises what can't be kept.
    """
    functions = load(target, Functions, default="functions")
    if not functions:
        raise Misconfigured(f"{target} has no function: register one with @functions.function().")
    if lost := functions.unreachable():
        raise Misconfigured(
            f"{target}: {', '.join(lost)}: isolation='process' needs a function that its module"
            " has under its own name; is it wrapped by another decorator?"
        )
    return functions
