"""The queues a message can travel through: RabbitMQ, and a file for one machine."""
