// BullMQ, on a Redis that writes every command to its disk before it answers (appendfsync always).
import { Queue, Worker } from "bullmq";
import pg from "pg";
import { INSERT_EFFECT, count, databaseUrl, latency, main, redisPort } from "./peer.mjs";

const QUEUE = "deliver";
const CONCURRENCY = 50;
const connection = { host: "127.0.0.1", port: redisPort, maxRetriesPerRequest: null };
const defaultJobOptions = { removeOnComplete: true, attempts: 5 };

async function open() {
    const queue = new Queue(QUEUE, { connection, defaultJobOptions });
    await queue.waitUntilReady();
    return {
        add: (job) => queue.add("deliver", job),
        addMany: (jobs) => queue.addBulk(jobs.map((data) => ({ name: "deliver", data }))),
        close: () => queue.close(),
    };
}

async function work(mode) {
    const pool = new pg.Pool({ connectionString: databaseUrl, max: 20 });
    const handlers = {
        noop: async () => count(),
        row: async ({ data }) => {
            await pool.query({ name: "effect", text: INSERT_EFFECT, values: [data.job] });
            count();
        },
        latency: async ({ data }) => latency(data),
    };
    const worker = new Worker(QUEUE, handlers[mode], { connection, concurrency: CONCURRENCY });
    worker.on("error", (error) => console.error(error));
    await worker.waitUntilReady();
    return async () => { await worker.close(); await pool.end(); };
}

await main({ prepare: async () => {}, open, work });
