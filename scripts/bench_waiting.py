"""Measures what it costs that very many jobs wait, for scripts/bench waiting. Orders of one shop wait, of which no worker was
notified. An ingress and a worker of orders run for a while, and meanwhile an order of another shop comes now and then. For each
number of waiting jobs, with a database of its own: how long these orders take from the request to the end of their jobs, how
many of the waiting orders the worker works off a second, and the most memory that the two processes had.
"""

import base64
import hashlib
import hmac
import json
import os
import pathlib
import statistics
import time

from bench_tools import Database, Process, arguments, post, start_ingress

# Each id begins with the time at which the job came, as those of real jobs do.
FILL = """
with made as (
    select n, {then} + n / 1000 as at,
           cast(lpad(to_hex({then} + n / 1000), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8'
                || substr(md5(n::text), 4, 15) as uuid) as id
    from generate_series(cast({first} as bigint), cast({last} as bigint)) as n
), came as (
    insert into deliveries (id, source, kind, shop, external_id, object_id, body, created_at)
    select id, 'storefront', 'orders/create', 'large.example', 'waiting-' || n, n::text,
           convert_to('{{"id":' || n || ',"name":"#' || n || '","email":"bob' || n || '@example.com",'
                      '"updated_at":"2027-01-01T00:00:00Z","total_price":"403.00","currency":"USD"}}', 'UTF8'), at
    from made
)
insert into jobs (id, queue, kind, shop, state, run_at, created_at)
select id, 'orders', 'orders/create', 'large.example', 'ready', at, at from made
"""
CHUNK = 1_000_000


def fill(database, jobs):
    begun = time.monotonic()
    then = int(time.time() * 1000) - 36_000_000
    for first in range(1, jobs + 1, CHUNK):
        database.query(FILL.format(then=then, first=first, last=min(first + CHUNK - 1, jobs)))
    database.query("vacuum (freeze, analyze) jobs, deliveries")
    database.query("checkpoint")
    found, size = database.rows("select count(*), pg_total_relation_size('jobs') + pg_total_relation_size('deliveries') "
                                "from jobs where state = 'ready'")[0]
    assert int(found) == jobs, f"{found} of {jobs} jobs are there"
    print(f"{jobs:>11,} jobs wait: {int(size) / 1e9:.1f} GB, filled in {time.monotonic() - begun:.0f} s", flush=True)


def waited(port, database, number):
    """Seconds from the request with an order of a small shop until its job is done."""
    body = json.dumps({"id": number, "name": f"#{number}", "updated_at": "2027-01-01T00:00:00Z"}).encode()
    secret = os.environ["STOREFRONT_WEBHOOK_SECRET"].encode()
    begun = time.monotonic()
    status = post(port, body, {
        "Content-Type": "application/json", "X-Storefront-Topic": "orders/create",
        "X-Storefront-Shop-Domain": "small.example", "X-Storefront-Webhook-Id": f"small-{number}-{begun}",
        "X-Storefront-Hmac-Sha256": base64.b64encode(hmac.new(secret, body, hashlib.sha256).digest()).decode()})
    assert status == 200, f"a delivery was answered {status}"
    done = ("select state from jobs join deliveries on deliveries.id = jobs.id "
            f"where deliveries.shop = 'small.example' and object_id = '{number}'")
    while database.query(done) != "done":
        assert time.monotonic() - begun < 60, "an order of the small shop is not done within a minute"
        time.sleep(0.005)
    return time.monotonic() - begun


def peak(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def measure(options, number, jobs):
    database = Database()
    processes = []
    try:
        port, ingress = start_ingress(options, number, database)
        processes.append(ingress)
        fill(database, jobs)
        env = {"DATABASE_URL": database.url, "AMQP_URL": os.environ["TEST_AMQP_URL"], "AMQP_PREFIX": database.name}
        worker = Process([options.bin.resolve() / "waybill", "worker", "orders"], options.work / f"worker-{number}.log", env=env)
        processes.append(worker)
        left = "select count(*) from orders where shop = 'large.example'"
        while not database.number(f"select count(*) from ({left} limit 1) as begun"):
            time.sleep(0.1)
        time.sleep(2)
        begun, before, waits = time.monotonic(), database.number(left), []
        while time.monotonic() - begun < options.seconds:
            waits.append(waited(port, database, len(waits) + 1))
            time.sleep(0.3)
        done, lasted = database.number(left) - before, time.monotonic() - begun
        assert database.query("select 1 from jobs where state = 'ready' and notified_at is null and run_at >= 0 limit 1"), \
            "all were done before the end, so nothing was shown"
        waits.sort()
        return {"orders a second": done / lasted, "waited p50": statistics.median(waits), "waited most": waits[-1],
                "waits": len(waits), "ingress MiB": peak(ingress), "worker MiB": peak(worker)}
    finally:
        for process in processes:
            process.stop()
        database.drop()


def main():
    parser = arguments("waiting", __doc__)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--jobs", type=int, nargs="+", default=[250_000, 1_000_000],
                        help="how many wait (250000 1000000); ten million take 9 GB")
    options = parser.parse_args()
    for number, jobs in enumerate(options.jobs):
        found = measure(options, number, jobs)
        print(f"{'':>11}  {found['orders a second']:.0f} orders a second by one worker; {found['waits']} orders of another shop took "
              f"{found['waited p50'] * 1000:.0f} ms, the slowest {found['waited most'] * 1000:.0f} ms; "
              f"peak of ingress {found['ingress MiB']:.0f} MiB, of the worker {found['worker MiB']:.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
