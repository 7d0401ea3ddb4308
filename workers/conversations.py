"""Stores an interaction as a conversation, and publishes each of its messages."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gemhooks import events, heads, jsontext
from gemhooks.conversations import to_messages
from gemhooks.gemini import FetchedInteraction
from gemhooks.messages import CONFIRM_TIMEOUT, Message, Publisher
from workers import answers
from workers.announcing import announce
from workers.ports import Results

LARGEST = 1 << 20  # bytes of JSON; of a larger message (a video) only the place is published
TYPE = "conversation.message"


@dataclass(frozen=True)
class ConversationTeller:
    """Nobody acts on what it publishes: only verified events of Gemini's start a function."""

    results: Results
    publisher: Publisher
    publish_timeout: float = CONFIRM_TIMEOUT

    def tell(self, event: events.Event, fetched: FetchedInteraction) -> None:
        """Store and publish; Retry where either cannot be at present."""
        conversation = {
            "interaction_id": fetched.id,
            "previous_interaction_id": fetched.parsed.get("previous_interaction_id"),
            "messages": [each.to_wire() for each in to_messages(fetched.parsed)],
        }
        stored = jsontext.dumps(conversation)
        url = self.results.write("conversations", fetched.id, "json", stored)
        context = {
            "result_url": url,
            "user_metadata": answers.user_metadata(fetched.parsed) or event.data.user_metadata,
        }
        when = event.timestamp or datetime.now(UTC).isoformat().replace("+00:00", "Z")
        announce(
            self.publisher, _messages(conversation, context, when), timeout=self.publish_timeout
        )


def _messages(
    conversation: dict[str, Any], context: dict[str, Any], when: str
) -> Iterator[Message]:
    interaction_id, messages = conversation["interaction_id"], conversation["messages"]
    for index, message in enumerate(messages):
        data = {
            "id": f"{interaction_id}/messages/{index}",
            "interaction_id": interaction_id,
            "previous_interaction_id": conversation["previous_interaction_id"],
            "index": index,
            "count": len(messages),
            "message": message if len(jsontext.dumps(message)) <= LARGEST else None,
            **context,
        }
        body = {"type": TYPE, "version": "1", "timestamp": when, "data": data}
        yield Message(
            id=f"{data['id']}/{TYPE}",  # the same at every attempt
            type=TYPE,
            body=(raw := jsontext.dumps(body)),
            timestamp=int(time.time()),
            time=when,
            traceparent=heads.head_of(raw).traceparent,
        )
