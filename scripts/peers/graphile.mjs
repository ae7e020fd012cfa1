// Graphile Worker, with the batching that its page on performance shows.
import { makeWorkerUtils, run, Logger } from "graphile-worker";
import pg from "pg";
import { INSERT_EFFECT, count, databaseUrl, latency, main } from "./peer.mjs";

const logger = new Logger(() => (level, message) => { if (level === "error") console.error(message); });

async function open(clients = 1) {
    const pgPool = new pg.Pool({ connectionString: databaseUrl, max: Math.min(clients, 20) });
    const utils = await makeWorkerUtils({ pgPool, logger });
    return {
        add: (job) => utils.addJob("deliver", job),
        addMany: (jobs) => utils.addJobs(jobs.map((job) => ({ identifier: "deliver", payload: job }))),
        close: async () => { await utils.release(); await pgPool.end(); },
    };
}

const handlers = {
    noop: () => count(),
    row: async (job, helpers) => {
        await helpers.query({ name: "effect", text: INSERT_EFFECT, values: [job.job] });
        count();
    },
    latency: (job) => latency(job),
};

async function work(mode) {
    const runner = await run({
        preset: {
            worker: {
                connectionString: databaseUrl,
                concurrentJobs: 24,
                maxPoolSize: 25,
                localQueue: { size: 500 },
                completeJobBatchDelay: 0,
                failJobBatchDelay: 0,
                logger,
            },
        },
        noHandleSignals: true,
        taskList: { deliver: handlers[mode] },
    });
    return () => runner.stop();
}

await main({
    prepare: async () => {
        const utils = await makeWorkerUtils({ connectionString: databaseUrl, logger });
        await utils.migrate();
        await utils.release();
    },
    open,
    work,
});
