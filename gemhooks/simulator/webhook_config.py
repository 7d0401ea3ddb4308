"""The `webhook_config` of a create call: who hears of this one resource."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict


class WebhookConfig(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    uris: tuple[str, ...] = ()
    user_metadata: Mapping[str, Any] | None = None
