"""How an interaction says in its webhook's ``user_metadata`` that its functions are ours to run."""

from collections.abc import Mapping
from typing import Any

MARK = "gemhooks"  # the name in user_metadata
STARTED = "started"  # its value where we started the interaction; else a continuation's key
LONGEST_KEY = 64  # characters


def marked(user_metadata: Mapping[str, Any] | None, value: str = STARTED) -> dict[str, Any]:
    """*user_metadata* with our mark: what a start must send for its calls to be answered."""
    return {**(user_metadata or {}), MARK: value}


def mark_of(user_metadata: Mapping[str, Any] | None) -> str:
    """Our mark, or "" where there is none."""
    value = (user_metadata or {}).get(MARK)
    return value if isinstance(value, str) and len(value) <= LONGEST_KEY else ""
