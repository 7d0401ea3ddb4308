"""What a function may know of the call that it serves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class CallContext:
    """Given to every parameter that is annotated with this class; the model never sees it."""

    interaction_id: str
    call_id: str
    user_metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def idempotency_key(self) -> str:
        """The same at each try of the same call: hand it to whoever takes the money."""
        return f"{self.interaction_id}/{self.call_id}"
