"""RabbitMQ through pika: the only package that knows it."""

from gemhooks.queues.rabbitmq.broker import RabbitBroker

__all__ = ["RabbitBroker"]
