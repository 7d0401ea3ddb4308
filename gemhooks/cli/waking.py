"""Wakes a worker, so that it looks at an interaction again."""

import os

from gemhooks import topology
from gemhooks.errors import Unavailable
from gemhooks.functions.resuming import look_again
from gemhooks.settings import Settings


def wake(interaction_id: str, *, by: str) -> None:
    """Ask for a look at the interaction, each time anew; Unavailable where nobody can be asked."""
    from gemhooks.queues.connect import connect_as  # noqa: PLC0415 - pika only when needed

    settings = Settings.from_env()
    timeout = settings.publish_timeout
    broker = connect_as(settings)
    try:
        broker.check()
        broker.declare([topology.FUNCTIONS])
        message = look_again(interaction_id, by=f"{by}-{os.urandom(4).hex()}")
        broker.publisher.publish(message, exchange=topology.RESULTS).result(timeout * 2)
    except (Unavailable, TimeoutError) as error:
        raise Unavailable(
            f"it is recorded, but no worker could be woken ({error}): say it again later."
        ) from error
    finally:
        broker.close()
