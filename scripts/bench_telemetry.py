"""Measures what spans and metrics for a collector cost the intake, for scripts/bench telemetry. Three ingress processes take
turns: one without a collector, another one like it, which shows how much such a measurement says, and one that records
a hundredth of all traces and sends spans and metrics. In each turn wrk loads one of them, and the processor time that
the process used for a delivery is noted. A turn is compared with that of the first process in the same round.
"""

import http.server
import random
import statistics
import threading

from bench_tools import Database, Wrong, arguments, bounds, load, nanoseconds, start_ingress

COLLECTED = {}


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes everything, and counts requests and bytes by path."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        requests, size = COLLECTED.get(self.path, (0, 0))
        COLLECTED[self.path] = requests + 1, size + len(body)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def main():
    parser = arguments("telemetry", __doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=int, default=2, help="length of a turn (2)")
    parser.add_argument("--sample", default="0.01", help="the part of the traces that is recorded (0.01)")
    options = parser.parse_args()
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    on = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
          "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": options.sample}
    database = Database()
    started, used, whole, taken = [], {}, {}, {}
    try:
        for number, (name, env) in enumerate((("off", {}), ("off again", {}), ("on", on))):
            port, process = start_ingress(options, number, database, env)
            started.append((name, port, process))
            load(options.work, port, 64, 2)
            used[name], taken[name] = [], 0
            whole[name] = nanoseconds(process.pid)
        for _ in range(options.rounds):
            for name, port, process in random.sample(started, len(started)):
                before = nanoseconds(process.pid)
                answers = load(options.work, port, 64, options.seconds)[0]
                used[name].append((nanoseconds(process.pid) - before) / answers / 1000)
                taken[name] += answers
        for name, _, process in started:
            whole[name] = (nanoseconds(process.pid) - whole[name]) / taken[name] / 1000
    finally:
        for *_, process in started:
            process.stop()
        database.drop()
    if not COLLECTED.get("/v1/traces") or not COLLECTED.get("/v1/metrics"):
        raise Wrong(f"the collector got {COLLECTED}")
    for name, *_ in started:
        line = f"{name:<10} {statistics.median(used[name]):6.2f} us of a processor a delivery, {taken[name]} deliveries"
        if name != "off":
            ratios = [one / other for one, other in zip(used[name], used["off"])]
            low, high = bounds(ratios)
            line += (f"; beside off {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f}), "
                     f"with what it does between turns {whole[name] / whole['off']:.3f}")
        print(line)
    print("collector: " + ", ".join(f"{requests} requests of {path}, {size} bytes"
                                    for path, (requests, size) in sorted(COLLECTED.items())))
    ratio = statistics.median(one / other for one, other in zip(used["on"], used["off"]))
    verdict = "ok" if ratio <= 1.02 else "MISSED"
    print(f"{verdict}: processor time a delivery, on / off {ratio:.3f} (<= 1.02)")
    raise SystemExit(verdict != "ok")


if __name__ == "__main__":
    main()
