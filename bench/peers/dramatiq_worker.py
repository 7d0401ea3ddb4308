"""A Dramatiq actor with a pydantic model. Run by `dramatiq --processes 1 --threads 1`."""

import os
from typing import Any

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from pydantic import BaseModel

from bench.peers.counting import Count

broker = RabbitmqBroker(url=os.environ["AMQP_URL"])
dramatiq.set_broker(broker)
count = Count()


class Data(BaseModel):
    id: str
    user_metadata: dict[str, Any] = {}


class Event(BaseModel):
    type: str
    version: str
    timestamp: str
    data: Data


@dramatiq.actor(queue_name=os.environ["QUEUE"], actor_name="handle")
def handle(body: str) -> None:
    Event.model_validate_json(body)
    count.hit()
