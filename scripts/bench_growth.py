"""Measures what an order costs while more and more orders are there, for scripts/bench growth. For each number of orders, in a
database of its own, so many rows are made of one order and its customer, with addresses in no sequence. Then two
workers work off a backlog of new orders of new customers. The indices are filled as far as those that rows are inserted into at
random are: 70 %.
"""

import time

from bench_scale import drain, fill, show, wait_for_workers
from bench_tools import arguments

# The order that the rows are made of. It has a higher number than those of the backlog.
TEMPLATE = 100_000_000
# What differs from row to row; all other columns are the template's.
ROWS = {
    "customers": {"id": "n * 100", "email_key": "md5(n::text) || '@example.com'"},
    "orders": {"id": "n * 100", "name": "'#' || {template} + n", "customer_id": "n * 100",
               "email_key": "md5(n::text) || '@example.com'", "listed_at": "listed_at - ({orders} - n) * 100",
               "created_at": "created_at - ({orders} - n) * 100", "updated_at": "updated_at - ({orders} - n) * 100"},
}


def grow(server, orders):
    begun, database = time.monotonic(), server.database
    fill(server, 1, TEMPLATE)
    worker = server.start("worker", "orders")
    wait_for_workers(server)
    worker.stop()
    for table, differs in ROWS.items():
        indices = database.lines(
            f"select indexdef from pg_indexes where tablename = '{table}' and indexname <> '{table}_pkey'")
        for definition in indices:
            database.query(f"drop index {definition.split()[2]}")
        columns = database.lines(
            f"select attname from pg_attribute where attrelid = '{table}'::regclass and attnum > 0")
        made = ", ".join(differs.get(column, column) for column in columns).format(orders=orders, template=2 * TEMPLATE)
        database.query(f"insert into {table} ({', '.join(columns)}) select {made} "
                       f"from {table}, generate_series(1, cast({orders} as bigint)) as n")
        for definition in indices:
            index, where, condition = definition.partition(" WHERE ")
            database.query(f"{index} with (fillfactor = 70){where}{condition}")
        database.query(f"vacuum (freeze, analyze) {table}")
    database.query("checkpoint")
    size = database.number("select pg_database_size(current_database())")
    print(f"{orders:,} orders and customers: {size / 1e9:.1f} GB, made in {time.monotonic() - begun:.0f} s", flush=True)


def main():
    parser = arguments("growth", __doc__)
    parser.add_argument("--orders", type=int, default=30_000, help="the backlog (30000)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--known", type=int, nargs="+", default=[10_000, 1_000_000],
                        help="how many orders are there (10000 1000000); ten million take 30 GB")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    for _ in range(options.rounds):
        for known in options.known:
            show("workers", drain(options, 2, lambda server, known=known: grow(server, known)))


if __name__ == "__main__":
    main()
