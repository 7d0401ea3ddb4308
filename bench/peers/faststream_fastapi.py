"""FastStream inside FastAPI, publishing with confirms. Run by uvicorn."""

import os

from fastapi import FastAPI, Request, Response
from faststream.rabbit.fastapi import RabbitRouter
from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["SECRET"])
router = RabbitRouter(os.environ["AMQP_URL"])
app = FastAPI()


@router.post("/webhooks/gemini")
async def receive(request: Request) -> Response:
    body = await request.body()
    try:
        event = webhook.verify(body, dict(request.headers))
    except WebhookVerificationError:
        return Response(status_code=401)
    await router.broker.publish(
        body,
        routing_key=os.environ["QUEUE"],
        persist=True,
        mandatory=True,
        message_id=request.headers["webhook-id"],
        message_type=event["type"],
        content_type="application/json",
    )
    return Response(status_code=204)


app.include_router(router)
