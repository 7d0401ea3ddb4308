"""FastAPI and aio-pika with publisher confirms. Run by uvicorn."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aio_pika
from fastapi import FastAPI, Request, Response
from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["SECRET"])


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    connection = await aio_pika.connect_robust(os.environ["AMQP_URL"])
    async with connection:
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        app.state.exchange = channel.default_exchange
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/webhooks/gemini")
async def receive(request: Request) -> Response:
    body = await request.body()
    try:
        event = webhook.verify(body, dict(request.headers))
    except WebhookVerificationError:
        return Response(status_code=401)
    message = aio_pika.Message(
        body,
        message_id=request.headers["webhook-id"],
        type=event["type"],
        content_type="application/json",
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
    )
    await app.state.exchange.publish(message, os.environ["QUEUE"], mandatory=True)
    return Response(status_code=204)
