#!/bin/sh
# Answers as they are fetched, one JSON body a line.
# RABBITMQ_API=http://user:password@rabbitmq:15672/api, RABBITMQ_VHOST=%2F
set -eu
queue=shop.answers.shell
json='content-type: application/json'
curl -fsS -X PUT "$RABBITMQ_API/queues/$RABBITMQ_VHOST/$queue" -H "$json" \
  -d '{"durable": true, "arguments": {"x-queue-type": "quorum"}}'
curl -fsS -X POST "$RABBITMQ_API/bindings/$RABBITMQ_VHOST/e/gemhooks.results/q/$queue" -H "$json" \
  -d '{"routing_key": "interaction.fetched"}'
exec amqp-consume --url="$GEMHOOKS_BROKER_URL" --queue="$queue" --prefetch-count=1 -- sh -c 'cat; echo'
