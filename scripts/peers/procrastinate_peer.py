"""Procrastinate, on psycopg, with notifications, and its documented task that takes up the jobs of dead workers."""

import asyncio
import sys

import procrastinate
import uvloop
from procrastinate import PsycopgConnector
from psycopg_pool import AsyncConnectionPool

import peer

CONCURRENCY = 20
MODE = sys.argv[2] if sys.argv[1] == "work" else ""

app = procrastinate.App(connector=PsycopgConnector(conninfo=peer.DATABASE_URL, min_size=2, max_size=20))
effects = AsyncConnectionPool(peer.DATABASE_URL, min_size=1, max_size=CONCURRENCY, open=False,
                              kwargs={"autocommit": True})


@app.task(name="deliver")
async def deliver(job, sent_at, order):
    if MODE == "latency":
        peer.tell_latency(sent_at)
        return
    if MODE == "row":
        async with effects.connection() as connection:
            await connection.execute("insert into effects (job) values (%s)", (job,), prepare=True)
    peer.counter.add()


async def retry_stalled():
    """What its documents do in a periodic task, every ten seconds."""
    while True:
        await asyncio.sleep(10)
        for job in await app.job_manager.get_stalled_jobs():
            await app.job_manager.retry_job(job)


async def main():
    command, *rest = sys.argv[1:]
    async with app.open_async():
        if command == "prepare":
            await app.schema_manager.apply_schema_async()
        elif command == "work":
            await effects.open()
            stalled = asyncio.create_task(retry_stalled())
            await app.run_worker_async(concurrency=CONCURRENCY, delete_jobs="successful", shutdown_graceful_timeout=5)
            stalled.cancel()
            await effects.close()
        else:
            numbers = [int(number) for number in rest]

            async def add(job):
                await deliver.defer_async(**job)

            async def add_many(jobs):
                await deliver.batch_defer_async(*jobs)

            await peer.produce(command, numbers, add, add_many)


uvloop.run(main())
