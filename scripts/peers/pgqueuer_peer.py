"""pgqueuer, on asyncpg: large batches, durable tables, and the default of 30 s without a heartbeat."""

import asyncio
import json
import signal
import sys

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, AsyncpgPoolDriver, PgQueuer, Queries

import peer


async def keep(_):
    """Spares the statement that resets a connection after each use: an insert leaves nothing to reset."""


async def work(mode):
    pool = await asyncpg.create_pool(peer.DATABASE_URL, min_size=2, max_size=10)
    effects = await asyncpg.create_pool(peer.DATABASE_URL, min_size=1, max_size=10, reset=keep)
    pgq = PgQueuer.from_asyncpg_pool(pool)

    @pgq.entrypoint("deliver")
    async def deliver(job):
        delivery = json.loads(job.payload)
        if mode == "latency":
            peer.tell_latency(delivery["sent_at"])
            return
        if mode == "row":
            await effects.execute(peer.INSERT_EFFECT, delivery["job"])
        peer.counter.add()

    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, pgq.shutdown.set)
    await pgq.run(batch_size=100)


async def main():
    command, *rest = sys.argv[1:]
    if command == "work":
        await work(rest[0])
        return
    if command == "prepare":
        connection = await asyncpg.connect(peer.DATABASE_URL)
        await Queries(AsyncpgDriver(connection)).install()
        return
    numbers = [int(number) for number in rest]
    size = 20 if command == "enqueue" else 1
    pool = await asyncpg.create_pool(peer.DATABASE_URL, min_size=1, max_size=size, reset=keep)
    queries = Queries(AsyncpgPoolDriver(pool))

    async def add(job):
        await queries.enqueue("deliver", json.dumps(job).encode())

    async def add_many(jobs):
        await queries.enqueue(["deliver"] * len(jobs), [json.dumps(job).encode() for job in jobs], [0] * len(jobs))

    await peer.produce(command, numbers, add, add_many)


uvloop.run(main())
