"""Fills a database with very many jobs and orders, asks every page of the console, and prints a table of the times.

Usage: bench_console.py BIN [--jobs N] [--asks N] [--port N] [--kept] URL..., with the folder of the programs, and for
each database an empty one: a file (sqlite:///path) or a PostgreSQL. A fifth of the jobs are dead, a tenth have failed
and are tried again, a tenth wait, and the others are done; there is an order for every ten jobs. --kept: the databases
were filled before. Exits with 1 if a page takes longer than 200 ms at p95.
"""

import argparse
import base64
import hashlib
import http.client
import json
import os
import re
import secrets
import sqlite3
import subprocess
import sys
import time
import urllib.parse
import uuid

LIMIT_MS = 200
HOUR = 3_600_000
SHOPS = 90
BODY = b'{"note":"' + b"x" * 980 + b'"}'
PAYMENT = json.dumps({"schema": 1, "succeeded": True, "received": 40300,
                      "currency": {"version": {"created": 1, "event": "evt_1"}, "value": "USD"}})
NAMES = ["accepted", "duplicate", "refused", "answers_1", "answers_2", "answers_3", "answers_5", "answers_7",
         "answers_10", "answers_15", "queue_due_orders", "queue_due_payments", "queue_oldest_orders",
         "queue_oldest_payments"]
DEAD = [("orders", "orders/create", "storefront"), ("orders", "orders/updated", "storefront"),
        ("payments", "payment_intent.succeeded", "payment"), ("orders", "fulfillments/request", "internal"),
        ("payments", "refunds/issue", "internal"), ("endpoints", "endpoints/send", "internal")]
FAILING = DEAD[3:]


def id_at(at: int, number: int, part: int) -> uuid.UUID:
    """Ids sort by their times, as those of Waybill do."""
    return uuid.UUID(int=at << 80 | 7 << 76 | part << 64 | 2 << 62 | number)


def shop(number: int) -> str:
    return f"shop-{number % SHOPS}.example"


def order_id(number: int) -> int:
    return 5_000_000_000_000 + number


class Rows:
    """All rows, table by table, each with the columns that it names."""

    def __init__(self, jobs: int):
        self.jobs, self.orders = jobs, jobs // 10
        self.now = int(time.time() * 1000)

    def job(self, n: int):
        """The id, the time and the part of a job: 0 and 1 are dead, 2 fails, 3 waits."""
        at = self.now - 7 * 24 * HOUR * (self.jobs - n) // self.jobs
        return id_at(at, n, 1), at, n % 10

    def tables(self):
        return [
            ("deliveries", "id source kind shop external_id object_id body created_at", self.deliveries()),
            ("jobs", "id queue kind shop state attempts run_at last_error created_at finished_at", self.all_jobs()),
            ("job_attempts", "job_id number started_at duration_ms outcome error status", self.attempts()),
            ("webhook_ids", "id job_id expires_at", self.webhook_ids()),
            ("orders", "shop id name pact_id customer_id email_key listed_at state financial_status payment_status is_paid "
                       "currency total_minor held held_minor record created_at updated_at", self.all_orders()),
            ("refunds", "shop order_id payment_id state created_at updated_at",
             ((shop(n), order_id(n), "", "recorded", self.now, self.now - n) for n in range(min(300, self.orders)))),
            ("payments", "id pact_id currency amount_minor received_minor tip_minor refunded_minor lost_minor state record "
                         "entries created_at updated_at",
             ((f"pi_{n}", f"pact-{n}", "USD", 40300, 40300, 0, 0, 0, "succeeded", PAYMENT, 2, self.ordered(n), self.ordered(n))
              for n in range(self.orders))),
            ("ledger_entries", "payment_id number entry account amount_minor currency created_at",
             ((f"pi_{n}", 1 + side, "captured", ["provider", "held"][side], [-40300, 40300][side], "USD", self.ordered(n))
              for n in range(self.orders) for side in range(2))),
            ("events", "kind shop object_id body created_at position",
             (("order.created", shop(n), str(order_id(n)),
               json.dumps({"order_id": str(order_id(n))}), self.ordered(n), n + 1)
              for n in range(self.orders))),
            ("endpoints", "id url kinds state secret position failing_since failures last_error created_at updated_at",
             ((id_at(self.now, n, 3), f"https://example.com/{n}", "*", "active", b"secret", 0, self.now - HOUR, 7,
               "status 500", self.now, self.now) for n in range(20))),
            ("privacy_requests", "id topic shop customer_id body_key state received_at due_at",
             ((id_at(self.now, n, 4), "customers/redact", shop(n), n, id_at(self.now, n, 5),
               ["done", "received", "failed", "held"][n % 4], self.now - n * HOUR, self.now + (200 - n) * HOUR)
              for n in range(2000))),
            ("bulk_operations", "id action queue kind shop connection error died_until rate actor state found done passed_over "
                                "refused created_at begins_at",
             ((id_at(self.now, n, 6), "requeue", "", "", "", "", "", self.now, 50, "operator:ann", "done", 9, 9, 0, 0,
               self.now - n * HOUR, self.now - n * HOUR) for n in range(500))),
            ("refused_deliveries", "hour_at source connection profile reason signature header advice status deliveries first_at "
                                   "last_at headers",
             ((self.now - self.now % HOUR - hour * HOUR, "storefront", "", "own", "signature", str(n), "", "", 401, 9,
               self.now - hour * HOUR, self.now - hour * HOUR, "{}") for hour in range(72) for n in range(20))),
            ("invoices", "id subscription payment_id is_first created_at",
             ((f"in_{n}", f"sub_{n if n < self.orders else self.orders // 2}", f"pi_{n % self.orders}", int(n < self.orders),
               self.now) for n in range(self.orders + 36))),
            ("subscriptions", "id period_end_at customer_id pact_id record created_at updated_at",
             ((f"sub_{n}", self.now, f"cus_{n}", f"pact-{n}", '{"schema": 1}', self.ordered(n), self.ordered(n))
              for n in range(self.orders))),
            ("users", "id provider_id login login_key created_at",
             ((id_at(self.now, n, 8), n + 1, f"user-{n}", f"user-{n}", self.now) for n in range(self.orders // 10))),
            ("licenses", "id user_id tier status expires_at subscription_id granted_at updated_at",
             ((id_at(self.now, n, 9), id_at(self.now, n, 8), "pro", "active", self.now + HOUR, f"sub_{n}", self.now, self.now)
              for n in range(self.orders // 10))),
            ("pauses", "id queue provider shop until_at actor begun_at",
             ((id_at(self.now, n, 10), None, None, shop(n), self.now + (HOUR if n < 50 else -HOUR), "operator:ann", self.now - 7 * HOUR)
              for n in range(1000))),
            ("api_keys", "id name hash scopes account created_at",
             ((id_at(self.now, n, 11), f"key {n}", hashlib.sha256(b"%d" % n).digest(), "orders:read", None, self.now - n)
              for n in range(500))),
            ("signing_secrets", "source fingerprint verified_at", (("storefront", f"{n:08x}", self.now) for n in range(20))),
            ("measures", "seconds begun_at name process_id value", self.measures()),
            ("audit", "number at actor action object_id details hash",
             ((-n, self.now - n, "operator:ann", "job.requeued", str(n), "{}", b"hash") for n in range(1, 20001))),
        ]

    def ordered(self, n: int) -> int:
        return self.now - 7 * 24 * HOUR * (self.orders - n) // self.orders

    def of_kind(self, n: int):
        """The queue, the kind and the source of a job."""
        return FAILING[n // 10 % 3] if n % 10 == 2 else DEAD[n // 10 % 6]

    def deliveries(self):
        for n in range(self.jobs):
            job, at, _ = self.job(n)
            _, kind, source = self.of_kind(n)
            yield (job, source, kind, shop(n), f"w-{n}" if source != "internal" else None,
                   str(order_id(n // 10)) if source != "payment" else f"pi_{n // 10}", BODY, at)

    def all_jobs(self):
        for n in range(self.jobs):
            job, at, part = self.job(n)
            queue, kind, _ = self.of_kind(n)
            error = None
            if part < 3:
                error = [f"COMMERCE_003: the storefront provider answered 503 for {n}",
                         f"order {n} at line 3: no amount"][n // 60 % 2]
            state = "dead" if part < 2 else "ready" if part < 4 else "done"
            run_at = self.now + n % HOUR if part == 2 else at
            yield (job, queue, kind, shop(n), state, [5, 5, 3, 0][part] if part < 4 else 0, run_at, error, at,
                   None if state == "ready" else min(at + 5000, self.now))

    def attempts(self):
        for n in range(self.jobs):
            job, at, part = self.job(n)
            if part == 2:
                at = self.now - HOUR // 2 + n * HOUR // 2 // self.jobs
            if part < 3:
                yield (job, 1, at, 7, "retried" if part == 2 else "dead",
                       f"COMMERCE_003: the storefront provider answered 503 for {n}", 503)

    def webhook_ids(self):
        for n in range(0, self.jobs, 5):
            job, at, _ = self.job(n)
            digest = hashlib.sha256(f"storefront:w-{n}".encode()).digest()
            yield uuid.UUID(bytes=digest[:16]), job, at + 48 * HOUR

    def all_orders(self):
        for n in range(self.orders):
            at = self.ordered(n)
            partly = n < 300
            # One customer of a shop has a thousand orders.
            customer = 7 if n % SHOPS == 7 else n
            email, page = f"bob{n % 50000}@example.com", f"http://127.0.0.1/orders/{order_id(n)}/track"
            address = {"first_name": f"Bob {n}", "address1": f"{n} Example Street", "city": "Ottawa"}
            lines = [{"id": n * 10 + line, "variant_id": 7, "title": "Linen apron", "quantity": 1, "price": "89.99",
                      "sku": f"APRON-{line}"} for line in range(3)]
            parts = {"name": f"#{n}", "totals": {"currency": "USD", "total": 40300}, "customer": customer, "lines": lines,
                     "contact": {"email": email}, "addresses": {"shipping": address, "billing": address},
                     "agreement": f"pact-{n}", "financial": None if partly else "paid"}
            record = {"schema": 1, "version": {"at": at, "tie": 0}, "ordered_at": at, "was_paid": not partly,
                      **{name: {"version": {"at": at, "tie": 0}, "value": value} for name, value in parts.items()},
                      "settled": {"status": "partially_paid" if partly else None, "covers": False},
                      "own": {"known_at": at, "fulfillment": {"updated_at": at}, "page_url": page}}
            yield (shop(n), order_id(n), f"#{n}", f"pact-{n}", customer, email, at, "initiated" if partly else "requested",
                   "partially_paid" if partly else "paid", "partially_paid" if partly else None, int(not partly),
                   "USD", 40300, "paid_in_part" if partly else None, 40300 if partly else None, json.dumps(record), at, at)

    def measures(self):
        for seconds, steps in ((60, 120), (600, 8 * 144)):
            for step in range(1, steps):
                begun = self.now - self.now % (seconds * 1000) - step * seconds * 1000
                for name in NAMES:
                    for process in range(2 if seconds == 60 else 1):
                        yield (seconds, begun, name, uuid.UUID(int=process), step % 97)


def fill_sqlite(path: str, rows: Rows) -> None:
    db = sqlite3.connect(path)
    db.execute("pragma synchronous = off")
    plain = lambda value: value.bytes if isinstance(value, uuid.UUID) else value
    for table, columns, all_rows in rows.tables():
        names = columns.split()
        marks = ", ".join("?" * len(names))
        with db:
            db.executemany(f"insert into {table} ({', '.join(names)}) values ({marks})",
                           (tuple(map(plain, row)) for row in all_rows))
    db.execute("pragma wal_checkpoint(truncate)")
    db.close()


def fill_postgres(url: str, rows: Rows) -> None:
    def text(value) -> str:
        if value is None:
            return "\\N"
        if isinstance(value, bytes):
            return "\\\\x" + value.hex()
        return str(value).replace("\\", "\\\\").replace("\t", " ")

    for table, columns, all_rows in rows.tables():
        command = f"copy {table} ({', '.join(columns.split())}) from stdin"
        psql = subprocess.Popen(["psql", url, "-qv", "ON_ERROR_STOP=1", "-c", command], stdin=subprocess.PIPE, text=True)
        for row in all_rows:
            psql.stdin.write("\t".join(map(text, row)) + "\n")
        psql.stdin.close()
        if psql.wait() != 0:
            sys.exit(f"{table} was not filled")
    subprocess.run(["psql", url, "-qc", "vacuum analyze"], check=True)


def pages(rows: Rows):
    """The addresses that are asked for each page."""
    job = rows.job(20)[0]
    dead = rows.job(rows.jobs // 2 // 10 * 10)[0]
    order = f"/orders/{order_id(rows.orders // 2)}"
    one = lambda part: id_at(rows.now, 7, part)
    rare = "no%20job%20died%20of%20this"
    return {
        "/": ["/"],
        "/deliveries": ["/deliveries", "/deliveries?topic=nothing", "/deliveries?state=dead&shop=shop-1.example", "/deliveries?span=week"],
        "/live": ["/live"],
        "/orders": ["/orders", "/orders?shop=shop-1.example", "/orders?name=%23777"],
        "/orders/{order}": [order],
        "/jobs": ["/jobs", "/jobs?queue=payments&state=dead"],
        "/notifications": ["/notifications"],
        "/repeated": ["/repeated"],
        "/jobs/{id}": [f"/jobs/{job}", f"/jobs/{dead}"],
        "/customers/{id}": ["/customers/7?shop=shop-7.example"],
        "/payments": ["/payments"],
        "/payments/{id}": [f"/payments/pi_{rows.orders // 2}"],
        "/subscriptions": ["/subscriptions"],
        "/subscriptions/{id}": [f"/subscriptions/sub_{rows.orders // 2}"],
        "/secrets": ["/secrets"],
        "/connections": ["/connections"],
        "/connections/add": ["/connections/add"],
        # These are of a connection that was added, and there is none.
        "/connections/{name}": [],
        "/connections/{name}/change": [],
        "/connections/{name}/rotate": [],
        "/connections/{name}/pause": [],
        "/connections/{name}/remove": [],
        "/reconcile": ["/reconcile"],
        "/reconcile/found": ["/reconcile/found"],
        "/pauses": ["/pauses"],
        "/pauses/begin": ["/pauses/begin"],
        "/pauses/{id}": [f"/pauses/{one(10)}"],
        "/keys": ["/keys", "/keys?all=yes"],
        "/keys/create": ["/keys/create"],
        "/keys/{id}": [f"/keys/{one(11)}"],
        "/keys/{id}/revoke": [f"/keys/{one(11)}/revoke"],
        "/licenses": ["/licenses"],
        "/attention": ["/attention"],
        "/orgs": ["/orgs"],
        "/licenses/grant": ["/licenses/grant"],
        "/licenses/{id}": [f"/licenses/{one(9)}"],
        "/licenses/{id}/revoke": [f"/licenses/{one(9)}/revoke"],
        "/failing": ["/failing", "/failing?kind=refunds%2Fissue", "/failing?kind=nothing"],
        "/dead": ["/dead", f"/dead?error={rare}", f"/dead?queue=orders&error={rare}", "/dead?kind=orders%2F*",
                  "/dead?shop=shop-1.example"],
        "/dead/all/requeue": ["/dead/all/requeue", f"/dead/all/requeue?error={rare}", "/dead/all/requeue?queue=orders"],
        "/dead/all/discard": ["/dead/all/discard?kind=refunds%2Fissue"],
        "/operations": ["/operations"],
        "/operations/{id}": [f"/operations/{one(6)}"],
        "/refused": ["/refused"],
        "/privacy": ["/privacy", "/privacy?all=yes"],
        "/privacy/request": ["/privacy/request"],
        "/privacy/{id}": [f"/privacy/{one(4)}"],
        "/privacy/{id}/decide": [f"/privacy/{one(4)}/decide"],
        # A request without a receipt has no such page.
        "/privacy/{id}/receipt": [],
        "/privacy/{id}/cancel": [f"/privacy/{one(4)}/cancel"],
        "/privacy/{id}/confirm": [f"/privacy/{one(4)}/confirm"],
        "/held": ["/held"],
        "/endpoints": ["/endpoints"],
        "/events": ["/events", "/events?shop=nothing.example", "/events?type=order.paid", "/events?object=777"],
        "/charts": ["/charts"],
        "/endpoints/add": ["/endpoints/add"],
        "/endpoints/{id}": [f"/endpoints/{one(3)}"],
        "/endpoints/{id}/remove": [f"/endpoints/{one(3)}/remove"],
        "/audit": ["/audit"],
        "/search": ["/search?q=%23777", f"/search?q=w-{rows.jobs // 2}", "/search?q=nothing"],
        # It answers for as long as somebody watches.
        "/live/events": [],
    }


class Visitor:
    """Somebody who is signed in."""

    def __init__(self, port: int, key: str):
        self.port = port
        self.lane = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.cookie = None
        status, headers, _ = self.send("POST", "/sign-in", {"key": key, "next": "/"})
        if status != 303:
            sys.exit(f"signing in was answered {status}")
        self.cookie = headers["Set-Cookie"].split(";")[0]
        _, _, page = self.send("GET", "/search")
        self.token = re.search('name="token" value="([^"]*)"', page)[1]

    def send(self, method: str, path: str, fields=None):
        headers = {"Cookie": self.cookie} if self.cookie else {}
        body = None
        if fields is not None:
            body = urllib.parse.urlencode(fields)
            origin = f"http://127.0.0.1:{self.port}"
            headers |= {"Content-Type": "application/x-www-form-urlencoded", "Origin": origin}
        self.lane.request(method, path, body, headers)
        answer = self.lane.getresponse()
        return answer.status, answer.headers, answer.read().decode()


def measured(visitor: Visitor, asks: int, method: str, path: str, fields=None):
    times = []
    for _ in range(asks):
        begun = time.perf_counter()
        status, _, page = visitor.send(method, path, fields)
        times.append((time.perf_counter() - begun) * 1000)
        # A page that is late is answered 503.
        if status not in (200, 303, 503):
            sys.exit(f"{path} was answered {status}: {page[:2000]}")
    times.sort()
    rank = lambda percent: times[min(asks - 1, (asks * percent + 99) // 100 - 1)]
    return rank(50), rank(95)


def asked(bin: str, url: str, rows: Rows, port: int, asks: int):
    """The times of all pages on one database, by address."""
    settings = dict(os.environ, DATABASE_URL=url, LISTEN_ADDR=f"127.0.0.1:{port}", CONSOLE_ADDR=f"127.0.0.1:{port + 1}",
                    PUBLIC_URL=f"http://127.0.0.1:{port}", LOG_FORMAT="json", RUST_LOG="error")
    create = [f"{bin}/waybill", "keys", "create", f"bench-{secrets.token_hex(4)}", "--scope", "console:owner"]
    made = subprocess.run(create, env=settings, capture_output=True, text=True)
    key = re.search(r"\bwb_\w+", made.stdout)
    if not key:
        sys.exit(f"no key was made: {made.stdout}{made.stderr}")
    serving = subprocess.Popen([f"{bin}/waybill", "ingress"], env=settings)
    try:
        for _ in range(600):
            try:
                visitor = Visitor(port + 1, key[0])
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        else:
            sys.exit("the console does not listen")
        times = {}
        for path in (path for paths in pages(rows).values() for path in paths):
            shown = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", urllib.parse.unquote(path))
            shown += " of a dead job" if shown in times else ""
            times[shown] = measured(visitor, asks, "GET", path)
        fields = {"token": visitor.token, "q": "bob777@example.com"}
        times["search by e-mail"] = measured(visitor, asks, "POST", "/search", fields)
        return times
    finally:
        serving.terminate()
        serving.wait()


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("bin")
    arguments.add_argument("urls", nargs="+")
    arguments.add_argument("--jobs", type=int, default=1_000_000)
    arguments.add_argument("--asks", type=int, default=50)
    arguments.add_argument("--port", type=int, default=18000)
    arguments.add_argument("--kept", action="store_true")
    given = arguments.parse_args()
    for name in ("STOREFRONT_WEBHOOK_SECRET", "PAYMENT_WEBHOOK_SECRET"):
        os.environ.setdefault(name, "bench-secret-of-more-than-32-characters")
    os.environ.setdefault("PRIVACY_KEY", base64.b64encode(hashlib.sha256(b"bench").digest()).decode())

    console, deeds = (os.path.join(os.path.dirname(__file__), "..", it) for it in ("console/src", "common/lists/src/deeds"))
    routes = open(os.path.join(console, "routes.rs")).read()
    questions = "".join(open(os.path.join(deeds, file)).read() for file in os.listdir(deeds))
    questions = re.findall(r'About::new\(\s*"(\w+) (\w+)",[^;]*?\)(?:\s*\.of\("(\w+)"\))?([^;]*);', questions)
    questions = {f"/{noun}/{{{target}}}/{word}" if target else f"/{noun}/{word}"
             for noun, word, target, rest in questions if ".asks(" in rest}
    routed = questions | set(re.findall(r'\.route\(\s*"([^"]+)",\s*page\(', routes)) | {"/live", "/live/events", "/search"}
    rows = Rows(given.jobs)
    if unknown := routed ^ set(pages(rows)):
        sys.exit(f"these pages are not both routed and asked: {sorted(unknown)}")

    results = []
    for url in given.urls:
        kept = f"{hashlib.sha256(url.encode()).hexdigest()[:12]}.now"
        kept = os.path.join(os.environ.get("TMPDIR", "/tmp"), "bench-console-" + kept)
        if given.kept:
            rows.now = int(open(kept).read())
        else:
            migrated = dict(os.environ, DATABASE_URL=url)
            subprocess.run([f"{given.bin}/waybill", "migrate"], env=migrated, check=True, stdout=subprocess.DEVNULL)
            print(f"filling {given.jobs} jobs and {rows.orders} orders", file=sys.stderr)
            begun = time.time()
            if url.startswith("sqlite:"):
                fill_sqlite(url.removeprefix("sqlite://"), rows)
            else:
                fill_postgres(url, rows)
            print(f"filled in {time.time() - begun:.0f} s", file=sys.stderr)
            open(kept, "w").write(str(rows.now))
        results.append(asked(given.bin, url, rows, given.port, given.asks))
    names = ["SQLite" if url.startswith("sqlite:") else "PostgreSQL" for url in given.urls]
    print("| view | " + " | ".join(f"{name} p50 | p95" for name in names) + " |")
    print("|---|" + "---|---|" * len(names))
    missed = []
    for path in results[0]:
        cells = []
        for name, times in zip(names, results):
            p50, p95 = times[path]
            cells.append(f"{p50:.0f} ms | {p95:.0f} ms")
            if p95 > LIMIT_MS:
                missed.append(f"{path} on {name}")
        print(f"| `{path}` | " + " | ".join(cells) + " |")
    if missed:
        sys.exit(f"slower than {LIMIT_MS} ms at p95: {', '.join(missed)}")


if __name__ == "__main__":
    main()
