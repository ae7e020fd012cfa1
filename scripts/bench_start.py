"""Measures the time from the start of a process until /readyz answers 200, for scripts/bench start: everything in one process on a
new SQLite file and on the same file again, and an ingress on PostgreSQL and RabbitMQ whose tables are there.
"""

import contextlib
import http.client
import os
import statistics
import time

from bench_tools import Database, Process, Wrong, arguments, start_ingress


def started(options, words, env):
    """Seconds until it is ready."""
    begun = time.monotonic()
    process = Process([options.bin.resolve() / "waybill", *words], options.work / "start.log", env=env)
    try:
        while process.alive():
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", options.port, timeout=1)
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    return time.monotonic() - begun
            time.sleep(0.001)
        raise Wrong(f"it ended; the end of its log: {process.log.read_text()[-2000:]}")
    finally:
        process.stop()


def main():
    parser = arguments("start", __doc__)
    parser.add_argument("--times", type=int, default=20)
    options = parser.parse_args()
    address = {"LISTEN_ADDR": f"127.0.0.1:{options.port}", "PUBLIC_URL": f"http://127.0.0.1:{options.port}"}
    database = Database()
    try:
        start_ingress(options, 1, database)[1].stop()
        distributed = {"DATABASE_URL": database.url, "AMQP_URL": os.environ["TEST_AMQP_URL"], "AMQP_PREFIX": database.name}
        for name, words, env in (
                ("everything on a new SQLite file", ["serve"], lambda n: {"DATABASE_URL": f"sqlite://{options.work}/start-{n}.db"}),
                ("everything on a SQLite file that is there", ["serve"],
                 lambda n: {"DATABASE_URL": f"sqlite://{options.work}/start-0.db"}),
                ("ingress on PostgreSQL and RabbitMQ", ["ingress"], lambda n: distributed)):
            times = sorted(started(options, words, {**env(n), **address}) for n in range(options.times))
            print(f"{name:<42} p50 {statistics.median(times) * 1000:5.0f} ms   slowest {times[-1] * 1000:5.0f} ms", flush=True)
    finally:
        database.drop()


if __name__ == "__main__":
    main()
