// What the peers in JavaScript have in common: the commands that scripts/peers/peers.py gives, and how they report.
//
//   PEER prepare                     makes the schema or the queue
//   PEER enqueue CLIENTS SECONDS N   enqueues one job at a time from CLIENTS loops, the first with the number N
//   PEER fill COUNT N                enqueues COUNT jobs in the library's bulk call
//   PEER trickle COUNT               enqueues a single job every 50 ms
//   PEER work noop|row|latency       works until SIGTERM
//
// `enqueue` and `fill` print "ready", wait for a line, and print {"jobs": .., "seconds": ..}.
import fs from "node:fs";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

const order = JSON.parse(fs.readFileSync(process.env.PEER_BODY, "utf8"));
export const databaseUrl = process.env.PEER_DATABASE_URL;
export const redisPort = Number(process.env.PEER_REDIS_PORT);
export const INSERT_EFFECT = "insert into effects (job) values ($1)";
const BULK = 500;

export const payload = (number) => ({ job: number, sent_at: Date.now() / 1000, order });

// How many jobs this process has handled, in a file that the harness reads.
let handled = 0;
const counts = fs.openSync(`${process.env.PEER_COUNTS}/${process.pid}`, "w");
const buffer = Buffer.alloc(8);
let told = -1;

function tell() {
    if (told === handled) return;
    told = handled;
    buffer.writeBigUInt64LE(BigInt(handled));
    fs.writeSync(counts, buffer, 0, 8, 0);
}

export const count = (jobs = 1) => { handled += jobs; };

// Reports how long ago a job was sent, when its handler begins.
export const latency = (job) => { fs.writeSync(1, `latency ${(Date.now() - job.sent_at * 1000).toFixed(3)}\n`); };

async function begin() {
    process.stdout.write("ready\n");
    await once(process.stdin, "data");
    return performance.now();
}

function report(jobs, begun) {
    const seconds = (performance.now() - begun) / 1000;
    process.stdout.write(`${JSON.stringify({ jobs, seconds })}\n`);
}

// Runs the command. `open` gives an object with `add(payload)`, `addMany(payloads)` and `close()`.
export async function main({ prepare, open, work }) {
    const [command, ...rest] = process.argv.slice(2);
    const [first, second, third] = rest.map(Number);
    if (command === "prepare") {
        await prepare();
    } else if (command === "work") {
        setInterval(tell, 25).unref();
        const stop = await work(rest[0]);
        await Promise.race([once(process, "SIGTERM"), once(process, "SIGINT")]);
        await stop();
        tell();
    } else {
        const queue = await open(first);
        if (command === "enqueue") {
            let [jobs, done] = [0, false];
            const begun = await begin();
            setTimeout(() => { done = true; }, second * 1000);
            await Promise.all(Array.from({ length: first }, async () => {
                while (!done) await queue.add(payload(third + jobs++));
            }));
            report(jobs, begun);
        } else if (command === "fill") {
            const begun = await begin();
            for (let at = 0; at < first; at += BULK) {
                const length = Math.min(BULK, first - at);
                await queue.addMany(Array.from({ length }, (_, n) => payload(second + at + n)));
            }
            report(first, begun);
        } else if (command === "trickle") {
            for (let n = 0; n < first; n++) {
                await queue.add(payload(n));
                await sleep(50);
            }
        }
        await queue.close();
    }
    process.exit(0);
}
