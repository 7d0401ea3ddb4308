"""Flask handing a task to Celery with confirm_publish. Run by gunicorn with threads."""

import os

from celery import Celery
from flask import Flask, Response, request
from kombu import Queue
from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["SECRET"])
queue = Queue(os.environ["QUEUE"], durable=True, queue_arguments={"x-queue-type": "quorum"})
celery = Celery("events", broker=os.environ["AMQP_URL"])
celery.conf.update(
    task_queues=[queue],
    task_default_queue=queue.name,
    task_ignore_result=True,
    broker_transport_options={"confirm_publish": True},
    broker_pool_limit=32,
)
app = Flask(__name__)


@app.post("/webhooks/gemini")
def receive() -> Response:
    body = request.get_data()
    try:
        webhook.verify(body, dict(request.headers))
    except WebhookVerificationError:
        return Response(status=401)
    celery.send_task("handle", args=[body.decode()], task_id=request.headers["webhook-id"])
    return Response(status=204)
