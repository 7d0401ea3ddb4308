"""A FastStream subscriber with a pydantic model. Run by `faststream run`."""

import os
from typing import Any

from faststream import FastStream
from faststream.rabbit import Channel, QueueType, RabbitBroker, RabbitQueue
from pydantic import BaseModel

from bench.peers.counting import Count, Delays

broker = RabbitBroker(
    os.environ["AMQP_URL"],
    default_channel=Channel(prefetch_count=int(os.environ["PREFETCH"])),
)
app = FastStream(broker)
count, delays = Count(), Delays()
timed = os.environ.get("TIMED") == "1"


class Data(BaseModel):
    id: str
    user_metadata: dict[str, Any] = {}


class Event(BaseModel):
    type: str
    version: str
    timestamp: str
    data: Data


queue = RabbitQueue(os.environ["QUEUE"], durable=True, queue_type=QueueType.QUORUM)


@broker.subscriber(queue)
async def handle(event: Event) -> None:
    if timed:
        delays.saw(event.data.user_metadata["sent"])
    else:
        count.hit()
