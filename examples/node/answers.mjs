// Answers as they are fetched: node answers.mjs
import amqp from "amqplib";

const connection = await amqp.connect(process.env.GEMHOOKS_BROKER_URL);
const channel = await connection.createChannel();
const arguments_ = { "x-queue-type": "quorum" };
const { queue } = await channel.assertQueue("shop.answers", { durable: true, arguments: arguments_ });
await channel.bindQueue(queue, "gemhooks.results", "interaction.fetched");
await channel.prefetch(16);

await channel.consume(queue, (message) => {
  if (message === null) process.exit(1); // the queue was deleted
  const { headers } = message.properties;
  const { data } = JSON.parse(message.content.toString());
  console.log(headers.cloudEvents_id, headers["gemhooks-trust"], data.text);
  channel.ack(message);
});
