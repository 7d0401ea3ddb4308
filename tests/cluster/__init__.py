"""Three RabbitMQ nodes: `make test-cluster`; not in the usual suite, for it takes minutes."""
