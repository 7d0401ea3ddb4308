"""Reads the few things we show of an interaction; any of them may be null, absent or odd."""

from collections.abc import Iterator
from typing import Any

from gemhooks.events import is_too_deep

LONGEST_TEXT = 64 * 1024  # bytes of UTF-8; the whole lies in the results store
LONGEST_MESSAGE = 300  # characters


def text(interaction: dict[str, Any]) -> str:
    """What the model said, at most 64 KiB of it."""
    said = "".join(_texts(interaction))
    return said.encode("utf-8", "replace")[:LONGEST_TEXT].decode("utf-8", "ignore")


def _texts(interaction: dict[str, Any]) -> Iterator[str]:
    for step in objects(interaction.get("steps")):
        if step.get("type") == "model_output":
            for part in objects(step.get("content")):
                if part.get("type") == "text" and isinstance(part.get("text"), str):
                    yield part["text"]


def total_tokens(interaction: dict[str, Any]) -> int:
    usage = interaction.get("usage")
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if isinstance(total, int) and not isinstance(total, bool) else 0


def failure(interaction: dict[str, Any]) -> tuple[str, str]:
    """Code and message of the first error, where there is one."""
    first = next(objects(interaction.get("errors")), {})
    code, message = first.get("code"), first.get("message")
    return (
        "" if code is None else str(code)[:LONGEST_MESSAGE],
        message[:LONGEST_MESSAGE] if isinstance(message, str) else "",
    )


def user_metadata(interaction: dict[str, Any]) -> dict[str, Any]:
    """What the webhook_config of the create call carried; Gemini echoes it."""
    config = interaction.get("webhook_config")
    metadata = config.get("user_metadata") if isinstance(config, dict) else None
    if not isinstance(metadata, dict) or is_too_deep({"data": {"user_metadata": metadata}}):
        return {}  # no message of ours could carry it
    return metadata


def objects(items: Any) -> Iterator[dict[str, Any]]:
    return (
        (each for each in items if isinstance(each, dict)) if isinstance(items, list) else iter(())
    )


def fields(value: Any) -> dict[str, Any]:
    """Those of an object; what is none has none."""
    return value if isinstance(value, dict) else {}
