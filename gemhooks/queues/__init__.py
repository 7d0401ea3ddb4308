"""Where messages wait: RabbitMQ, or a file on this machine."""
