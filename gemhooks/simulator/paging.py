"""Lists in pages, as Gemini gives them: an empty list is an empty object."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from flask import request

from gemhooks.simulator.refusals import invalid

T = TypeVar("T")

USUAL_PAGE, LARGEST_PAGE = 50, 1000


def page(noun: str, values: Sequence[T], show: Callable[[T], Any]) -> tuple[dict[str, Any], str]:
    """Return the page of *values* that the request asks for, and the token of the next one."""
    size = min(_whole("page_size", "pageSize") or USUAL_PAGE, LARGEST_PAGE)
    start = _whole("page_token", "pageToken")
    shown = [show(value) for value in values[start : start + size]]
    token = str(start + size) if start + size < len(values) else ""
    return ({noun: shown} if shown else {}), token


def _whole(*names: str) -> int:
    text = next((request.args[name] for name in names if request.args.get(name)), "0")
    if not (text.isascii() and text.isdecimal()):
        raise invalid(f"'{names[0]}' is not valid.")
    return int(text)
