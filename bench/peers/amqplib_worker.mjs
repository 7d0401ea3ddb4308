// amqplib with JSON.parse: what a Node user writes.
import amqp from "amqplib";
import { renameSync, writeFileSync } from "node:fs";

const { AMQP_URL, COUNT, OUT, PREFETCH, QUEUE } = process.env;
const wanted = Number(COUNT);
let hits = 0;
let started;
let cpu;

const connection = await amqp.connect(AMQP_URL);
const channel = await connection.createChannel();
await channel.prefetch(Number(PREFETCH));
await channel.consume(QUEUE, (message) => {
  const event = JSON.parse(message.content.toString());
  if (typeof event.type !== "string" || typeof event.data?.id !== "string") throw new Error("not an event");
  hits += 1;
  if (hits === 1) [started, cpu] = [process.hrtime.bigint(), process.cpuUsage()];
  if (hits === wanted) finish();
  channel.ack(message);
});

function finish() {
  const seconds = Number(process.hrtime.bigint() - started) / 1e9;
  const used = process.cpuUsage(cpu);
  const events = wanted - 1;
  const found = {
    rate: events / seconds,
    cpu_us: (used.user + used.system) / events,
    rss_mib: process.memoryUsage().rss / 2 ** 20,
  };
  writeFileSync(`${OUT}.part`, JSON.stringify(found));
  renameSync(`${OUT}.part`, OUT);
}
