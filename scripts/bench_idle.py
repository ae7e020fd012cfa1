"""Measures the share of a processor that idle processes take, for scripts/bench idle: a worker and an ingress on
PostgreSQL and RabbitMQ, and everything in one process on SQLite. All run at the same time, and each is measured by the
processor time that the system has counted for it (/proc/PID/stat).
"""

import json
import os
import pathlib
import time

from bench_tools import (TICK, Database, Process, arguments, await_ready, nanoseconds, processor_seconds, service_pids,
                         statistics_of)


def main():
    parser = arguments("idle", __doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--settle", type=int, default=15, help="seconds before that (15)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write what was found to this file")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    database = Database()
    distributed = {"DATABASE_URL": database.url, "AMQP_URL": os.environ["TEST_AMQP_URL"],
                   "AMQP_PREFIX": database.name}
    sqlite = {"DATABASE_URL": f"sqlite://{options.work}/idle.db"}
    started = {}
    try:
        for number, (name, words, env) in enumerate((
                ("ingress", ["ingress"], distributed), ("worker of orders", ["worker", "orders"], distributed),
                ("everything on SQLite", ["serve"], sqlite))):
            port = options.port + number
            address = {"LISTEN_ADDR": f"127.0.0.1:{port}", "PUBLIC_URL": f"http://127.0.0.1:{port}"}
            started[name] = Process([options.bin / "waybill", *words], options.work / f"idle-{number}.log",
                                    env={**env, **address})
            if words[0] != "worker":
                await_ready(port, started[name])
        time.sleep(options.settle)

        def used():
            return {name: (statistics_of(it.pid)[1] / TICK, nanoseconds(it.pid) / 1e9) for name, it in started.items()}

        begun, before, servers = time.monotonic(), used(), processor_seconds(service_pids())
        time.sleep(options.seconds)
        after, lasted = used(), time.monotonic() - begun
        found = {name: {"share": (after[name][0] - before[name][0]) / lasted,
                        "scheduler_share": (after[name][1] - before[name][1]) / lasted} for name in started}
        found["PostgreSQL and RabbitMQ"] = {"share": (processor_seconds(service_pids()) - servers) / lasted}
    finally:
        for process in started.values():
            process.stop()
        database.drop()
    for name, shares in found.items():
        print(f"{name:<26} {shares['share'] * 100:6.2f} %" + (
            f"   by the scheduler {shares['scheduler_share'] * 100:6.3f} %" if "scheduler_share" in shares else ""))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
