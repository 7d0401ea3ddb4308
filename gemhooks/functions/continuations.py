"""The one request that answers all waiting calls of an interaction."""

from collections.abc import Mapping, Sequence
from typing import Any

from gemhooks.functions.calls import waiting_calls
from gemhooks.functions.choices import unforced
from gemhooks.functions.results import Result

# Nothing of these is inherited from the previous interaction. A model's and an agent's
# interaction differ: the API refuses the one's own fields with the other.
_CARRIED = (
    "tools",
    "system_instruction",
    "response_format",
    "response_mime_type",
    "response_modalities",
    "safety_settings",
    "service_tier",
    "labels",
    "environment",
)
_MODEL_ONLY = ("generation_config", "cached_content")
_AGENT_ONLY = ("agent_config",)


def continuation(
    interaction: Mapping[str, Any],
    results: Sequence[Result],
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    webhook_config: Mapping[str, Any] | None = None,
    system_instruction: str | None = None,
    generation_config: Mapping[str, Any] | None = None,
    user_metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The arguments of the ``interactions.create`` that continues *interaction*.

    What the interaction itself says counts; the keywords fill in what it does not say, and
    *user_metadata* is added to what the next webhook will carry. A model that had to call a
    function (``tool_choice``: ``any``) has done so and need not do it again. Raises ValueError
    where the interaction has no id, neither model nor agent, or where results and waiting calls
    differ: the API refuses a continuation that leaves a call unanswered.
    """
    given = {
        "tools": tools,
        "system_instruction": system_instruction,
        "generation_config": generation_config,
    }
    said = {key: value for key, value in interaction.items() if value is not None}
    who = _who(said)
    own = _AGENT_ONLY if who == "agent" else _MODEL_ONLY
    carried = {key: said.get(key, given.get(key)) for key in (*_CARRIED, *own)}
    if "generation_config" in carried:
        carried["generation_config"] = unforced(carried["generation_config"])
    body = {
        who: said[who],
        "previous_interaction_id": _id(said),
        "input": [each.item() for each in _ordered(said, results)],
        "background": True,
        **carried,
        "webhook_config": _webhook_config(
            _object(said.get("webhook_config")) or webhook_config, user_metadata
        ),
    }
    return {key: value for key, value in body.items() if value is not None}


def declared_names(interaction: Mapping[str, Any]) -> frozenset[str] | None:
    """The functions that *interaction* was given; None where it does not say."""
    tools = interaction.get("tools")
    if not isinstance(tools, list):
        return None
    named = (each.get("name") for each in tools if _is_function(each))
    return frozenset(name for name in named if isinstance(name, str))


def _is_function(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type") == "function"


def _id(said: Mapping[str, Any]) -> str:
    key = said.get("id")
    if not isinstance(key, str) or not key:
        raise ValueError("an interaction without an id can't be continued")
    return key


def _who(said: Mapping[str, Any]) -> str:
    # An agent names the model that it uses, too; a model names no agent.
    for who in ("agent", "model"):
        if said.get(who):
            return who
    raise ValueError("an interaction with neither model nor agent can't be continued")


def _ordered(said: Mapping[str, Any], results: Sequence[Result]) -> Sequence[Result]:
    if "steps" not in said:
        return results
    by_call = {each.call_id: each for each in results}
    waiting = [each.id for each in waiting_calls(said["steps"]).calls]
    if len(results) != len(waiting) or by_call.keys() != set(waiting):
        raise ValueError("the results are not those of the waiting calls")
    return [by_call[key] for key in waiting]


def _webhook_config(
    config: Mapping[str, Any] | None, user_metadata: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    if not user_metadata:
        return dict(config) if config else None
    before = _object((config or {}).get("user_metadata"))
    return {**(config or {}), "user_metadata": {**before, **user_metadata}}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
