"""Starts batches and videos, each once: Gemini has no idempotency key."""

from collections.abc import Mapping, Sequence
from typing import Any

from gemhooks.errors import AnswerLost, NotYet, Refused
from gemhooks.gemini.client import Connection, segment
from gemhooks.gemini.errors import MALFORMED
from gemhooks.gemini.rest import Rest

UNKNOWN_MODEL = "Gemini does not know the model (404)"


class Starts:
    """What begins and ends later.

    AnswerLost means "perhaps it was started"; every other error means that it was not.
    """

    def __init__(self, connection: Connection, rest: Rest) -> None:
        self._connection = connection
        self._rest = rest

    def batch(
        self, *, model: str, src: str | Sequence[Any], config: Mapping[str, Any] | None = None
    ) -> str:
        """The name of a new batch; *src* is the name of a file, or requests to send inline."""
        given = dict(config or {})
        try:
            job = self._connection.ask(
                lambda client: client.batches.create(model=model, src=src, config=given)
            )
        except NotYet:
            raise Refused(UNKNOWN_MODEL) from None
        return _name(job.name)

    def video(
        self,
        *,
        model: str,
        instances: Sequence[Mapping[str, Any]],
        parameters: Mapping[str, Any] | None = None,
        webhook_config: Mapping[str, Any] | None = None,
    ) -> str:
        """The name of the operation that makes a video.

        Sent raw: google-genai 3 refuses it for the Gemini API.
        """
        given = {
            "instances": list(instances),
            "parameters": dict(parameters or {}),
            "webhookConfig": dict(webhook_config or {}),
        }
        path = f"models/{segment(model.removeprefix('models/'))}:predictLongRunning"
        try:
            found = self._rest.post(path, {name: value for name, value in given.items() if value})
        except NotYet:
            raise Refused(UNKNOWN_MODEL) from None
        return _name(found.get("name") if isinstance(found, dict) else None)


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise AnswerLost(MALFORMED)
    return name
