"""A Gemini in memory, for those who continue interactions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from gemhooks.errors import NotYet
from gemhooks.gemini import FetchedInteraction

Create = Callable[["MemoryGemini", dict[str, Any]], FetchedInteraction]


@dataclass
class MemoryGemini:
    """Keeps interactions; *script* holds what the next creates do instead of working."""

    interactions: dict[str, dict[str, Any]] = field(default_factory=dict)
    script: list[Create | Exception] = field(default_factory=list)
    created: list[dict[str, Any]] = field(default_factory=list)

    def get(self, interaction_id: str, /) -> FetchedInteraction:
        if interaction_id not in self.interactions:
            raise NotYet("not_found")
        return fetched(self.interactions[interaction_id])

    def create(self, **wanted: Any) -> FetchedInteraction:
        self.created.append(wanted)
        step = self.script.pop(0) if self.script else MemoryGemini.accept
        if isinstance(step, Exception):
            raise step
        return step(self, wanted)

    def accept(self, wanted: dict[str, Any]) -> FetchedInteraction:
        """Start what is asked for."""
        name = f"v1_made_{len(self.interactions)}"
        said = {key: value for key, value in wanted.items() if key not in ("input", "background")}
        self.interactions[name] = {"id": name, "status": "in_progress", **said}
        return fetched(self.interactions[name])

    def wait_for(self, name: str, *calls: tuple[str, Any], **more: Any) -> None:
        """Let *name* wait for the calls (function, arguments) with the ids c0, c1 ..."""
        steps = [
            {"type": "function_call", "id": f"c{number}", "name": function, "arguments": given}
            for number, (function, given) in enumerate(calls)
        ]
        known = self.interactions.get(name, {"model": "gemini-3.8-flash"})
        waiting = {"id": name, "status": "requires_action", "steps": steps}
        self.interactions[name] = known | waiting | more


def fetched(interaction: dict[str, Any]) -> FetchedInteraction:
    return FetchedInteraction(interaction["id"], orjson.dumps(interaction), dict(interaction))
