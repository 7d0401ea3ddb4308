"""Which choice of tools a turn passes on to the next."""

from typing import Any


def unforced(generation_config: Any) -> Any:
    """*generation_config* for the turn after a call: the model may answer in words now.

    One that had to call a function ("any") would have to do so in each turn of its chain. None
    where nothing else was said; what is no object is left as it is.
    """
    if not isinstance(generation_config, dict) or "tool_choice" not in generation_config:
        return generation_config
    before = generation_config["tool_choice"]
    after = _unforced(before)
    if after == before:
        return generation_config
    kept = {key: each for key, each in generation_config.items() if key != "tool_choice"}
    return (kept if after is None else {**kept, "tool_choice": after}) or None


def _unforced(choice: Any) -> Any:
    """None where nothing is left of it."""
    if _forces(choice):
        return None
    allowed = choice.get("allowed_tools") if isinstance(choice, dict) else None
    if not isinstance(allowed, dict) or not _forces(allowed.get("mode")):
        return choice
    if not allowed.get("tools"):
        return None
    # The model still may call these and no others; a list goes with "any" and "validated" only.
    return {**choice, "allowed_tools": {**allowed, "mode": "validated"}}


def _forces(mode: Any) -> bool:
    return isinstance(mode, str) and mode.lower() == "any"
