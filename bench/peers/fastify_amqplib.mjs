// Fastify and amqplib's confirm channel.
import amqp from "amqplib";
import fastify from "fastify";
import { Webhook, WebhookVerificationError } from "standardwebhooks";

const { AMQP_URL, PORT, QUEUE, SECRET } = process.env;
const webhook = new Webhook(SECRET);
const connection = await amqp.connect(AMQP_URL);
const channel = await connection.createConfirmChannel();
const app = fastify();

app.addContentTypeParser("*", { parseAs: "string" }, (_, body, done) => done(null, body));
app.addContentTypeParser("application/json", { parseAs: "string" }, (_, body, done) => done(null, body));

app.post("/webhooks/gemini", async (request, reply) => {
  let event;
  try {
    event = webhook.verify(request.body, request.headers);
  } catch (error) {
    if (error instanceof WebhookVerificationError) return reply.code(401).send();
    throw error;
  }
  const options = {
    persistent: true,
    mandatory: true,
    messageId: request.headers["webhook-id"],
    type: event.type,
    contentType: "application/json",
  };
  await new Promise((resolve, reject) =>
    channel.publish("", QUEUE, Buffer.from(request.body), options, (error) => (error ? reject(error) : resolve())),
  );
  return reply.code(204).send();
});

await app.listen({ host: "127.0.0.1", port: Number(PORT) });
