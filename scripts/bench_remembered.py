"""Measures whether the intake slows down as more ids of deliveries are remembered, for scripts/bench remembered. An ingress process
for each number of ids, with a database of its own, takes turns with the others; in each turn wrk loads one of them. A turn
is compared with that of the smallest number in the same round. The indexes are filled as far as those that rows are
inserted into at random are: 70 %.
"""

import random
import statistics
import time

from bench_tools import Database, arguments, bounds, load, start_ingress

FILL = """
alter table webhook_ids drop constraint webhook_ids_pkey;
drop index webhook_ids_expiry;
insert into webhook_ids (id, job_id, expires_at)
select gen_random_uuid(), gen_random_uuid(), {now} + n * 172800000 / {ids} from generate_series(1, cast({ids} as bigint)) as n;
alter table webhook_ids add primary key (id) with (fillfactor = 70);
create index webhook_ids_expiry on webhook_ids (expires_at);
vacuum (freeze, analyze) webhook_ids;
checkpoint
"""


def fill(database, ids):
    begun = time.monotonic()
    for statement in FILL.format(now=int(time.time() * 1000) + 3_600_000, ids=ids).split(";"):
        database.query(statement)
    found, table, indexes = database.rows(
        "select count(*), pg_table_size('webhook_ids'), pg_indexes_size('webhook_ids') from webhook_ids")[0]
    assert int(found) == ids, f"{found} of {ids} ids are there"
    print(f"{ids:>11,} ids: {int(table) / ids:.0f} bytes each, and {int(indexes) / ids:.0f} in indexes; "
          f"filled in {time.monotonic() - begun:.0f} s", flush=True)


def main():
    parser = arguments("remembered", __doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=4, help="length of a turn (4)")
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--ids", type=int, nargs="+", default=[10_000, 10_000_000],
                        help="how many are remembered, the smallest number first (10000 10000000); "
                             "a hundred million take 15 GB")
    options = parser.parse_args()
    started, databases, rates = [], [], {}
    try:
        for number, ids in enumerate(options.ids):
            database = Database()
            databases.append(database)
            port, process = start_ingress(options, number, database)
            started.append((ids, port, process))
            fill(database, ids)
            load(options.work, port, options.connections, 2)
            rates[ids] = []
        for _ in range(options.rounds):
            for ids, port, _ in random.sample(started, len(started)):
                rates[ids].append(load(options.work, port, options.connections, options.seconds)[1])
    finally:
        for *_, process in started:
            process.stop()
        for database in databases:
            database.drop()
    first = options.ids[0]
    failed = False
    for ids in options.ids:
        line = f"{ids:>11,} ids: {statistics.median(rates[ids]):,.0f} deliveries a second"
        if ids != first:
            ratios = [one / other for one, other in zip(rates[ids], rates[first])]
            low, high = bounds(ratios)
            bound = 0.95 if ids <= 10_000_000 else 0.85
            failed |= statistics.median(ratios) < bound
            line += f"; beside {first:,} {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f}, at least {bound})"
        print(line)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
