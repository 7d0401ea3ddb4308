"""Which broker a URL means; each is imported only when it is asked for."""

import asyncio

from gemhooks.errors import Misconfigured
from gemhooks.messages import Broker
from gemhooks.settings import Settings


def connect_as(settings: Settings, *, loop: asyncio.AbstractEventLoop | None = None) -> Broker:
    """Open the broker as *settings* say, in every point: what each program of ours does."""
    return connect(
        settings.broker_url.get_secret_value(),
        publish_timeout=settings.publish_timeout,
        loop=loop,
        verify=settings.declare == "verify",
        management_url=settings.management_url.get_secret_value(),
    )


def connect(
    url: str,
    *,
    publish_timeout: float,
    loop: asyncio.AbstractEventLoop | None = None,
    verify: bool = False,
    management_url: str = "",
) -> Broker:
    """Open the broker at *url*; one on the network lives on *loop* where that is given."""
    scheme = url.partition(":")[0]
    if scheme in ("amqp", "amqps"):
        from gemhooks.queues.rabbitmq import RabbitBroker  # noqa: PLC0415 - pika only when needed

        return RabbitBroker(
            url,
            publish_timeout=publish_timeout,
            loop=loop,
            verify=verify,
            management_url=management_url,
        )
    if scheme == "sqlite":
        from gemhooks.queues.sqlite import SqliteBroker  # noqa: PLC0415 - as above

        return SqliteBroker(url, publish_timeout=publish_timeout)
    raise Misconfigured("GEMHOOKS_BROKER_URL must begin with amqp://, amqps:// or sqlite:///.")


def check(url: str) -> None:
    """Misconfigured or Unavailable, in one sentence, where no RabbitMQ lets us in at *url*.

    For tools, before they connect: a connected one tries again and again, and logs each failure.
    """
    if url.partition(":")[0] in ("amqp", "amqps"):
        from gemhooks.queues.rabbitmq import parameters  # noqa: PLC0415 - as above

        parameters.check(parameters.parse(url, heartbeat=0))  # it leaves at once
