"""The user's registry, by its name."""

from gemhooks.functions.registry import Functions
from gemhooks.loading import load


def load_functions(target: str) -> Functions:
    """The Functions object that ``package.module:name`` names; Misconfigured if there is none."""
    return load(target, Functions, default="functions")
