// pg-boss, with notifications, batches that are fetched without a pause while there are more, heartbeats, and the
// transaction in which its worker completes a job for the effect.
import { PgBoss } from "pg-boss";
import { INSERT_EFFECT, count, databaseUrl, latency, main } from "./peer.mjs";

const QUEUE = "deliver";
// A queue without notifications stores faster, because PostgreSQL commits transactions that notify one after the other.
const notify = process.env.PEER_NOTIFY !== "0";

async function start(options) {
    const boss = new PgBoss({ connectionString: databaseUrl, schedule: false, ...options });
    boss.on("error", (error) => console.error(error));
    await boss.start();
    return boss;
}

async function open(clients = 1) {
    const boss = await start({ max: Math.min(clients, 20), supervise: false });
    return {
        add: (job) => boss.send(QUEUE, job),
        addMany: (jobs) => boss.insert(QUEUE, jobs.map((data) => ({ data }))),
        close: () => boss.stop({ graceful: false }),
    };
}

const handlers = {
    noop: async (jobs) => count(jobs.length),
    row: async (jobs, tx) => {
        for (const job of jobs) await tx.executeSql(INSERT_EFFECT, [job.data.job]);
        count(jobs.length);
    },
    latency: async (jobs) => jobs.forEach((job) => latency(job.data)),
};

async function work(mode) {
    const intervals = { superviseIntervalSeconds: 10, monitorIntervalSeconds: 10 };
    const boss = await start({ max: 10, useListenNotify: notify, ...intervals });
    await boss.work(QUEUE, {
        batchSize: mode === "latency" ? 1 : 100,
        localConcurrency: 4,
        burstWhenBatchFull: true,
        pollingIntervalSeconds: 0.5,
        transactional: mode === "row",
    }, handlers[mode]);
    return () => boss.stop({ graceful: true, timeout: 5000 });
}

await main({
    prepare: async () => {
        const boss = await start({ supervise: false });
        await boss.createQueue(QUEUE, { notify, heartbeatSeconds: 10, retryLimit: 5 });
        await boss.stop({ graceful: false });
    },
    open,
    work,
});
