"""A Celery task with a pydantic model. Run by `celery worker --pool solo`."""

import os
from typing import Any

from celery import Celery
from kombu import Queue
from pydantic import BaseModel

from bench.peers.counting import Count

queue = Queue(os.environ["QUEUE"], durable=True, queue_arguments={"x-queue-type": "quorum"})
app = Celery("events", broker=os.environ["AMQP_URL"])
app.conf.update(
    task_queues=[queue],
    task_default_queue=queue.name,
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=int(os.environ["PREFETCH"]),
    worker_hijack_root_logger=False,
    worker_detect_quorum_queues=True,
    broker_connection_retry_on_startup=True,
)
count = Count()


class Data(BaseModel):
    id: str
    user_metadata: dict[str, Any] = {}


class Event(BaseModel):
    type: str
    version: str
    timestamp: str
    data: Data


@app.task(name="handle")
def handle(body: str) -> None:
    Event.model_validate_json(body)
    count.hit()
