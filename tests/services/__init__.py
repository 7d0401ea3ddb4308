"""Real, private services for the tests: RabbitMQ and PostgreSQL, each in a folder of its own."""
