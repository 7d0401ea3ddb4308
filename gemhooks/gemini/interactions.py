"""Interactions, as bytes and parsed."""

from dataclasses import dataclass, field
from typing import Any

from gemhooks import jsontext
from gemhooks.errors import AnswerLost, NotYet, Refused
from gemhooks.gemini.client import Connection, segment
from gemhooks.gemini.errors import MALFORMED
from gemhooks.heads import bare_id


@dataclass(frozen=True, slots=True)
class FetchedInteraction:
    """An interaction: the bytes as Gemini sent them, and the same parsed."""

    id: str
    raw: bytes = field(repr=False)
    parsed: dict[str, Any] = field(repr=False)


class Interactions:
    """``client.interactions``, each call once and bounded."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, interaction_id: str) -> FetchedInteraction:
        """Fetch an interaction whole.

        Raises NotYet("not_found") for a 404, Retry where another attempt may help, else Refused.
        """
        bare = bare_id(interaction_id)  # the client would send a prefix as a part of the id
        name = segment(bare)
        raw = self._connection.call(
            lambda client, timeout: client.interactions.with_streaming_response.get(
                name, stream=False, timeout=timeout
            )
        )
        return _interaction(raw, expected=bare)

    def create(self, **wanted: Any) -> FetchedInteraction:
        """Start an interaction; sent once, whatever happens.

        AnswerLost means "perhaps it was started": Gemini has no idempotency key. Every other error
        means that it was not.
        """
        try:
            raw = self._connection.call(
                lambda client, timeout: client.interactions.with_streaming_response.create(
                    timeout=timeout, **wanted
                )
            )
        except NotYet:  # nothing we wait for: the model or the agent does not exist
            raise Refused("Gemini does not know the model or agent (404)") from None
        return _interaction(raw)


def _interaction(raw: bytes, *, expected: str | None = None) -> FetchedInteraction:
    try:
        parsed = jsontext.loads(raw)
    except (jsontext.Malformed, RecursionError):
        raise AnswerLost(MALFORMED) from None
    found = parsed.get("id") if isinstance(parsed, dict) else None
    if not isinstance(found, str) or not found or bare_id(found) != (expected or bare_id(found)):
        raise AnswerLost(MALFORMED)
    return FetchedInteraction(found, raw, parsed)
