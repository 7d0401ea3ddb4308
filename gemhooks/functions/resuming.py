"""The message that makes a worker look at an interaction again."""

import time
from datetime import UTC, datetime

from gemhooks import jsontext
from gemhooks.messages import Message

TYPE = "interaction.waiting"


def look_again(interaction_id: str, *, by: str) -> Message:
    """For the results exchange; asked by the same twice, it is one message.

    It proves nothing: whoever takes it fetches the interaction and looks into the ledger.
    """
    now = datetime.now(UTC)
    body = {
        "type": TYPE,
        "version": "1",
        "timestamp": now.isoformat().replace("+00:00", "Z"),
        "data": {"id": interaction_id, "by": by},
    }
    return Message(
        id=f"{interaction_id}/{TYPE}/{by}",
        type=TYPE,
        body=jsontext.dumps(body),
        timestamp=int(time.time()),
        trust="hint",
    )
