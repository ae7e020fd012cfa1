"""What the peers in Python have in common: the same commands and reports as in peer.mjs."""

import asyncio
import json
import mmap
import os
import struct
import sys
import time

DATABASE_URL = os.environ.get("PEER_DATABASE_URL", "")
INSERT_EFFECT = "insert into effects (job) values ($1)"
BULK = 500
with open(os.environ["PEER_BODY"], encoding="utf-8") as file:
    ORDER = json.load(file)


def payload(number):
    return {"job": number, "sent_at": time.time(), "order": ORDER}


class Counter:
    """How many jobs this process has handled, in a file that the harness reads. A forked process has its own."""

    def __init__(self):
        self.pid = None

    def add(self, jobs=1):
        if self.pid != os.getpid():
            self.pid, self.handled = os.getpid(), 0
            with open(f"{os.environ['PEER_COUNTS']}/{self.pid}", "w+b") as file:
                file.write(bytes(8))
                file.flush()
                self.map = mmap.mmap(file.fileno(), 8)
        self.handled += jobs
        self.map[:] = struct.pack("<Q", self.handled)


counter = Counter()


def tell_latency(sent_at):
    os.write(1, f"latency {(time.time() - sent_at) * 1000:.3f}\n".encode())


def begin():
    print("ready", flush=True)
    sys.stdin.readline()
    return time.monotonic()


def report(jobs, begun):
    print(json.dumps({"jobs": jobs, "seconds": time.monotonic() - begun}), flush=True)


async def enqueue(add, clients, seconds, first):
    numbers = iter(range(first, 1 << 62))
    begun = begin()
    until, jobs = begun + seconds, 0

    async def produce():
        nonlocal jobs
        while time.monotonic() < until:
            await add(payload(next(numbers)))
            jobs += 1

    await asyncio.gather(*(produce() for _ in range(clients)))
    report(jobs, begun)


async def fill(add_many, count, first):
    begun = begin()
    for at in range(first, first + count, BULK):
        await add_many([payload(n) for n in range(at, min(at + BULK, first + count))])
    report(count, begun)


async def trickle(add, count):
    for number in range(count):
        await add(payload(number))
        await asyncio.sleep(0.05)


async def produce(command, numbers, add, add_many):
    """Runs one of the commands that store jobs."""
    if command == "enqueue":
        await enqueue(add, *numbers)
    elif command == "fill":
        await fill(add_many, *numbers)
    elif command == "trickle":
        await trickle(add, *numbers)
