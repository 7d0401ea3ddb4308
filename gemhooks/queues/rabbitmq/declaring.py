"""Declares what topology.py describes; tells which part the broker has otherwise."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel
from pika.exceptions import ChannelClosedByBroker

from gemhooks import topology
from gemhooks.errors import Misconfigured
from gemhooks.queues.rabbitmq import rpc

Step = Callable[[Channel], Awaitable[None]]
Problems = dict[str, Misconfigured]


async def declare(
    connection: AsyncioConnection, queues: Iterable[topology.Queue], *, verify: bool = False
) -> Problems:
    """Declare everything that can be, or only *verify* that it is there; answer what is wrong."""
    problems: Problems = {}
    for name, kind, arguments in topology.exchanges():
        step = _exchange(name, kind, arguments, passive=verify)
        await _attempt(connection, name, problems, step)
    steps = {topology.UNROUTED: _is_there(topology.UNROUTED) if verify else _unrouted()}
    for rung in topology.RUNGS:
        name = topology.retry_name(rung)
        steps[name] = _is_there(name) if verify else _rung(rung)
    await _attempt_all(connection, steps, problems)
    return problems | await declare_queues(connection, queues, verify=verify)


async def declare_queues(
    connection: AsyncioConnection, queues: Iterable[topology.Queue], *, verify: bool = False
) -> Problems:
    problems: Problems = {}
    steps = {
        queue.name: _is_there(queue.name, queue.dead_letters) if verify else _queue(queue)
        for queue in queues
    }
    await _attempt_all(connection, steps, problems)
    return problems


async def _attempt_all(
    connection: AsyncioConnection, steps: dict[str, Step], problems: Problems
) -> None:
    await asyncio.gather(
        *(_attempt(connection, name, problems, step) for name, step in steps.items())
    )


async def _attempt(
    connection: AsyncioConnection, name: str, problems: Problems, step: Step
) -> None:
    """On a channel of its own: a refusal closes the channel, and must hit nobody else."""
    channel = await rpc.open_channel(connection)
    try:
        await step(channel)
    except ChannelClosedByBroker as refusal:
        problems[name] = Misconfigured(f"RabbitMQ refuses {name}: {refusal.reply_text}.")
    else:
        channel.close()


def _exchange(name: str, kind: str, arguments: dict[str, str], *, passive: bool) -> Step:
    async def step(channel: Channel) -> None:
        await rpc.ask(
            channel,
            lambda done: channel.exchange_declare(
                name, kind, passive=passive, durable=True, arguments=arguments, callback=done
            ),
        )

    return step


def _is_there(*names: str) -> Step:
    """All that one can ask without the right to configure; arguments need the management API."""

    async def step(channel: Channel) -> None:
        for name in names:
            await rpc.exists(channel, name)

    return step


def _unrouted() -> Step:
    async def step(channel: Channel) -> None:
        await _declare(channel, topology.UNROUTED, topology.unrouted_arguments())
        await _bind(channel, topology.UNROUTED, topology.UNROUTED, "")

    return step


def _rung(rung: int) -> Step:
    name = topology.retry_name(rung)

    async def step(channel: Channel) -> None:
        await _declare(channel, name, topology.rung_arguments(rung))
        await _bind(channel, name, name, "")

    return step


def _queue(queue: topology.Queue) -> Step:
    async def step(channel: Channel) -> None:
        await _declare(channel, queue.dead_letters, topology.queue_arguments())
        await _declare(channel, queue.name, topology.queue_arguments())
        for exchange, pattern in (*queue.bindings, (topology.RETURN, queue.name)):
            await _bind(channel, queue.name, exchange, pattern)

    return step


async def _declare(channel: Channel, name: str, arguments: dict[str, str | int]) -> None:
    await rpc.ask(
        channel,
        lambda done: channel.queue_declare(name, durable=True, arguments=arguments, callback=done),
    )


async def _bind(channel: Channel, queue: str, exchange: str, pattern: str) -> None:
    await rpc.ask(channel, lambda done: channel.queue_bind(queue, exchange, pattern, callback=done))
