"""Measures how Waybill grows on one machine, for scripts/bench scale: deliveries a second with one to three ingress
processes, orders a second with one to four workers, and the bytes that a delivery takes in PostgreSQL and in its
write-ahead log. docs/performance.md says what follows from them.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

from bench_tools import (ROOT, Database, Process, Wrong, arguments, await_ready, load, processor_seconds, result_of, service_pids,
                         start_wrk)

CONNECTIONS = 192
SIZES = """select c.relname, pg_table_size(c.oid), pg_indexes_size(c.oid) from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where c.relkind = 'r' and n.nspname = 'public' order by pg_total_relation_size(c.oid) desc"""


def server_seconds():
    """The processor time of PostgreSQL and of RabbitMQ until now."""
    return [processor_seconds([pid]) for pid in service_pids()]


class Server:
    """A fresh database with some processes of Waybill on it."""

    def __init__(self, options):
        self.options, self.database, self.running = options, Database(), []

    def start(self, *words, port=None, env=()):
        port = port or self.options.port
        process = Process([self.options.bin / "waybill", *words], self.options.work / "scale.log", env={
            **dict(env),
            "DATABASE_URL": self.database.url, "AMQP_URL": os.environ["TEST_AMQP_URL"],
            "AMQP_PREFIX": self.database.name, "LISTEN_ADDR": f"127.0.0.1:{port}",
            "PUBLIC_URL": f"http://127.0.0.1:{self.options.port}"})
        self.running.append(process)
        return process

    def ingress(self, number=0):
        process = self.start("ingress", port=self.options.port + number)
        await_ready(self.options.port + number, process)
        return process

    def log_position(self):
        return self.database.number("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint")

    def sizes(self, rows):
        """The bytes a row of each table and of its indices, for the tables that take more than a few."""
        self.database.query("vacuum analyze")
        found = {name: (int(table) / rows, int(indices) / rows) for name, table, indices in self.database.rows(SIZES)}
        return {name: pair for name, pair in found.items() if sum(pair) > 32}

    def close(self):
        for process in self.running:
            process.stop()
        self.database.drop()


def intake(options, count):
    server = Server(options)
    try:
        processes = [server.ingress(number) for number in range(count)]
        each = CONNECTIONS // count
        load(options.work, options.port, each, 1)
        before = server.database.number("select count(*) from jobs")
        log, servers = server.log_position(), server_seconds()
        own = processor_seconds([process.pid for process in processes])
        wrks = [start_wrk(options.work, options.port + number, each, options.seconds) for number in range(count)]
        results = [result_of(wrk) for wrk in wrks]
        own = processor_seconds([process.pid for process in processes]) - own
        servers = [now - then for now, then in zip(server_seconds(), servers)]
        stored = server.database.number("select count(*) from jobs") - before
        found = {"processes": count, "rate": sum(result[1] for result in results),
                 "p50": max(result[2] for result in results), "p99": max(result[3] for result in results),
                 "log_bytes": (server.log_position() - log) / stored, "own_us": own / stored * 1e6,
                 "servers_us": [used / stored * 1e6 for used in servers]}
        if count == 1:
            found["bytes"] = server.sizes(before + stored)
        return found
    finally:
        server.close()


def fill(server, orders, first=0):
    """Posts new orders, the numbers of which begin with `first`."""
    subprocess.run([sys.executable, ROOT / "scripts" / "bench_fill.py", f"http://127.0.0.1:{server.options.port}",
                    str(orders), str(first)], check=True)


def wait_for_workers(server):
    until = time.monotonic() + 120
    while server.database.number("select count(*) from jobs where state = 'ready' and kind = 'orders/create'"):
        if time.monotonic() > until:
            raise Wrong("the workers did not finish in two minutes")
        time.sleep(0.1)


def drain(options, count, prepare=lambda server: None):
    server = Server(options)
    try:
        ingress = server.ingress()
        prepare(server)
        made = "select (select count(*) from orders), (select count(*) from events), (select count(*) from jobs)"
        orders, events, jobs = (int(number) for number in server.database.rows(made)[0])
        fill(server, options.orders)
        ingress.stop()
        log = server.log_position()
        workers = [server.start("worker", "orders") for _ in range(count)]
        own, servers = processor_seconds([it.pid for it in workers]), server_seconds()
        wait_for_workers(server)
        own = processor_seconds([it.pid for it in workers]) - own
        servers = [now - then for now, then in zip(server_seconds(), servers)]
        milliseconds = server.database.number("select max(finished_at) - min(finished_at) from "
                                              f"(select finished_at from jobs order by id desc limit {options.orders}) as last")
        found = server.database.query(made)
        if found != f"{orders + options.orders} {events + 3 * options.orders} {jobs + options.orders}":
            raise Wrong(f"orders, events and jobs: {found}")
        found = {"processes": count, "rate": options.orders / milliseconds * 1000,
                 "log_bytes": (server.log_position() - log) / options.orders, "own_us": own / options.orders * 1e6,
                 "servers_us": [used / options.orders * 1e6 for used in servers]}
        if count == 1:
            found["bytes"] = server.sizes(options.orders)
        return found
    finally:
        server.close()


def show(what, found):
    percentiles = f"   p50 {found['p50']:6.1f} ms   p99 {found['p99']:6.1f} ms" if "p50" in found else ""
    print(f"{found['processes']} {what:<20} {found['rate']:8.0f} /s{percentiles}   log {found['log_bytes']:6.0f} bytes"
          "   processor {:5.0f} us, PostgreSQL {:5.0f} us, RabbitMQ {:5.0f} us".format(found["own_us"], *found["servers_us"]),
          flush=True)
    for name, (table, indices) in found.get("bytes", {}).items():
        print(f"    {name:<24} {table:7.0f} bytes, indices {indices:7.0f}")


def main():
    parser = arguments("scale", __doc__)
    parser.add_argument("--seconds", type=int, default=5, help="of one measurement of the intake (5)")
    parser.add_argument("--orders", type=int, default=10000, help="the backlog of a drain (10000)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all that was found to this file")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    results = {"ingress": [], "workers": []}
    for kind, run, most in (("ingress", intake, 3), ("workers", drain, 4)):
        for count in range(1, most + 1):
            results[kind].append(run(options, count))
            show("ingress processes" if kind == "ingress" else "workers", results[kind][-1])
            if options.json:
                options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
