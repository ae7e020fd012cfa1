"""Measures thirty days of a shop with 100,000 deliveries a day, for scripts/bench month. On each day ingress and a worker of orders
start with the clock of that day (libfaketime). First they remove what is too old, then a quarter of the day's deliveries are new
orders, a quarter say that these are packed, and half change the orders of the day before. PostgreSQL's
vacuum has as many minutes as in truth it has days.
"""

import datetime
import glob
import subprocess
import time

import bench_fill
from bench_scale import SIZES, Server
from bench_tools import ROOT, Wrong, arguments, await_ready

DAY_MS = 86_400_000
OLD = """select (select count(*) from webhook_ids where expires_at < {now})
    + (select count(*) from jobs join deliveries on deliveries.id = jobs.id
       where jobs.state = 'done' and jobs.finished_at < {now} - 7 * {day} and body is not null)"""
DEAD = "select sum(n_dead_tup), sum(n_live_tup), sum(autovacuum_count) from pg_stat_user_tables"


def wait(database, query, what, seconds=600):
    begun = time.monotonic()
    while database.number(query):
        if time.monotonic() - begun > seconds:
            raise Wrong(f"{what} within {seconds} s")
        time.sleep(0.2)
    return time.monotonic() - begun


def the_day(options, server, day, library):
    database, log = server.database, server.log_position()
    env = {"LD_PRELOAD": library, "FAKETIME": f"+{day}d", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    ingress, worker = server.start("ingress", env=env), server.start("worker", "orders", env=env)
    await_ready(options.port, ingress)
    begun = time.monotonic()
    now = int(time.time() * 1000) + day * DAY_MS
    removed = wait(database, OLD.format(now=now, day=DAY_MS), "what is too old was not removed")
    orders = options.deliveries // 4
    url, first = f"http://127.0.0.1:{options.port}", day * orders
    today = datetime.date(2028, 1, 1) + datetime.timedelta(days=day)
    said = lambda hour: {"updated_at": f"{today}T{hour:02}:00:00Z"}
    turns = [(first, "orders/create", {}), (first, "orders/updated", {"tags": "packed", **said(1)})]
    if day:
        shipped = {"fulfillment_status": "fulfilled", **said(2)}
        turns += [(first - orders, "orders/updated", {"note": "changed", **said(1)}), (first - orders, "orders/fulfilled", shipped)]
    for turn, (start, topic, changes) in enumerate(turns):
        if bench_fill.fill(url, orders, start, topic, f"{day}-{turn}", changes):
            raise Wrong("a delivery was not accepted")
    wait(database, "select count(*) from jobs where state = 'ready'", "deliveries were not worked off")
    took = time.monotonic() - begun
    for process in (ingress, worker):
        process.stop()
    server.running.clear()
    dead, live, vacuums = database.rows(DEAD)[0]
    size = database.number("select pg_database_size(current_database())")
    print(f"day {day + 1:2}: {size / 1e9:5.2f} GB, log {(server.log_position() - log) / 1e9:5.2f} GB, old data gone after {removed:4.1f} s,"
          f" all done in {took:4.1f} s; {int(dead):,} dead rows beside {int(live):,}, {vacuums} vacuums so far", flush=True)


def main():
    parser = arguments("month", __doc__)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--deliveries", type=int, default=100_000, help="of a day (100000)")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    subprocess.run([ROOT / "scripts" / "services", "install", "libfaketime"], check=True)
    library = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")[0]
    server = Server(options)
    try:
        for day in range(options.days):
            the_day(options, server, day, library)
        for name, table, indices in server.database.rows(SIZES):
            if int(table) + int(indices) > 1 << 20:
                rows = server.database.number(f"select count(*) from {name}")
                print(f"    {name:<20} {rows:>10,} rows {int(table) / 1e6:8.0f} MB, indices {int(indices) / 1e6:6.0f} MB", flush=True)
        kept = server.database.query("select count(*) filter (where body is not null), count(*) from deliveries")
        print(f"    deliveries with their bodies, and all: {kept}")
    finally:
        server.close()


if __name__ == "__main__":
    main()
