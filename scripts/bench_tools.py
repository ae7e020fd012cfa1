"""What the measuring scripts in Python share: servers and workers, wrk, a database, and processor time."""

import argparse
import contextlib
import os
import pathlib
import random
import signal
import statistics
import subprocess
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
TICK = os.sysconf("SC_CLK_TCK")
ADMIN_URL = os.environ.get("TEST_DATABASE_URL", "")


def arguments(name, description):
    """A parser for what follows `scripts/bench NAME`, with what scripts/bench itself passes on."""
    parser = argparse.ArgumentParser(prog=f"scripts/bench {name}", description=description)
    parser.add_argument("--work", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=18000, help=argparse.SUPPRESS)
    return parser


class Wrong(Exception):
    """A server or a peer did something else than it should."""


class Process:
    """A process in a session of its own, with its children."""

    def __init__(self, command, log, env=None, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=None):
        self.log = pathlib.Path(log)
        errors = open(self.log, "ab")
        self.popen = subprocess.Popen([str(word) for word in command], env=dict(os.environ, **(env or {})), cwd=cwd,
                                      stdin=stdin, stdout=stdout or errors, stderr=errors, start_new_session=True)
        errors.close()
        self.pid = self.popen.pid

    def alive(self):
        return self.popen.poll() is None

    def signal_all(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def stop(self, seconds=12):
        if self.alive():
            self.popen.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(seconds)
        self.signal_all(signal.SIGKILL)
        self.popen.wait()

    def kill(self):
        self.signal_all(signal.SIGKILL)
        self.popen.wait()


class Database:
    """A fresh database, and one session with it."""

    def __init__(self):
        self.name = f"bench_{random.randrange(10**12)}"
        subprocess.run(["psql", ADMIN_URL, "-qc", f"create database {self.name}"], check=True)
        self.url = ADMIN_URL.rsplit("/", 1)[0] + "/" + self.name
        self.psql = None

    def lines(self, sql):
        """The rows of the answer, with a space between their columns."""
        if not self.psql:
            self.psql = subprocess.Popen(["psql", self.url, "-AtqX", "-F", " "], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True, bufsize=1)
        self.psql.stdin.write(f"{sql.strip().rstrip(';')};\n\\echo end-of-answer\n")
        self.psql.stdin.flush()
        lines = []
        while (line := self.psql.stdout.readline()) and line != "end-of-answer\n":
            lines.append(line.rstrip("\n"))
        return lines

    def query(self, sql):
        """The first row of the answer, or an empty text."""
        return next(iter(self.lines(sql)), "")

    def number(self, sql):
        return int(self.query(sql) or 0)

    def rows(self, sql):
        return [line.split(" ") for line in self.lines(sql)]

    def drop(self):
        if self.psql:
            self.psql.stdin.close()
            self.psql.wait()
        subprocess.run(["psql", ADMIN_URL, "-qc", f"drop database if exists {self.name} with (force)"], check=True)


def statistics_of(pid):
    """The parent of a process and the ticks that it and its children that ended have used."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(fields[1]), sum(int(field) for field in fields[11:15])


def processor_seconds(pids):
    """The processor time that these processes and all their children have used so far."""
    parents, used = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (found := statistics_of(entry)):
            parents[int(entry)], used[int(entry)] = found
    family = {pid for pid in pids if pid in used}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in family} - family
        family |= more
        grown = bool(more)
    return sum(used[pid] for pid in family) / TICK


def nanoseconds(pid):
    """The processor time that the threads of a process have used, as the scheduler counts it."""
    return sum(int(it.read_text().split()[0]) for it in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"))


def bounds(ratios):
    """Between which the median is with 95 % (bootstrap)."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[50], medians[-51]


def service_pids():
    """The PostgreSQL and the RabbitMQ that scripts/services started."""
    pids = []
    for service in ("postgres", "rabbitmq"):
        with contextlib.suppress(FileNotFoundError, KeyError):
            state = pathlib.Path(os.environ["WAYBILL_SERVICES_DIR"]) / service
            pids.append(int((state / "pid").read_text().split()[0]))
    return pids


def await_ready(port, process, seconds=30):
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.alive():
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2):
                return
        time.sleep(0.05)
    raise Wrong(f"not ready; the end of its log: {process.log.read_text()[-2000:]}")


def start_ingress(options, number, database, env=()):
    """The port and the process of an ingress on this database, once it is ready."""
    port = options.port + number
    env = {**dict(env), "DATABASE_URL": database.url, "AMQP_URL": os.environ["TEST_AMQP_URL"], "AMQP_PREFIX": database.name,
           "LISTEN_ADDR": f"127.0.0.1:{port}", "PUBLIC_URL": f"http://127.0.0.1:{port}"}
    process = Process([options.bin.resolve() / "waybill", "ingress"], options.work / f"{number}.log", env=env)
    await_ready(port, process)
    return port, process


def post(port, body, headers):
    """The status of the answer."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/webhooks/storefront", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def start_wrk(work, port, connections, seconds):
    command = ["wrk", "-t", "1", "-c", str(connections), "-d", f"{seconds}s", "--timeout", "10s", "-s",
               "scripts/bench.lua", f"http://127.0.0.1:{port}", "--", f"{work}/head", f"{work}/tail", "200", "fresh",
               str(random.randrange(10**12)), "0"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def result_of(wrk):
    """The answers, how many of them a second, and their p50 and p99 in ms."""
    output = wrk.communicate()[0]
    for line in output.splitlines():
        if line.startswith("RESULT "):
            answers, wrong, errors, duration, p50, p99 = (int(number) for number in line.split()[1:])
            if wrong or errors or not answers:
                raise Wrong(f"of {answers} answers {wrong} were not 200, and {errors} requests failed")
            return answers, answers / duration * 1e6, p50 / 1000, p99 / 1000
    raise Wrong("wrk gave no result")


def load(work, port, connections, seconds):
    return result_of(start_wrk(work, port, connections, seconds))
