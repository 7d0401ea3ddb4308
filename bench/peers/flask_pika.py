"""Flask and a pika connection per request, as in tutorials. Run by gunicorn with threads."""

import os

import pika
from flask import Flask, Response, request
from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["SECRET"])
parameters = pika.URLParameters(os.environ["AMQP_URL"])
app = Flask(__name__)


@app.post("/webhooks/gemini")
def receive() -> Response:
    body = request.get_data()
    try:
        event = webhook.verify(body, dict(request.headers))
    except WebhookVerificationError:
        return Response(status=401)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        properties = pika.BasicProperties(
            delivery_mode=2,
            message_id=request.headers["webhook-id"],
            type=event["type"],
            content_type="application/json",
        )
        channel.basic_publish("", os.environ["QUEUE"], body, properties, mandatory=True)
    return Response(status=204)
