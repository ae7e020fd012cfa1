"""Starts a Waybill, fills it, and compares its answers with its own description (scripts/api-test --help)."""

import argparse
import base64
import collections
import hashlib
import hmac
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import jsonschema_rs
import requests
from openapi_spec_validator import OpenAPIV31SpecValidator

HERE = pathlib.Path(__file__).resolve().parent
THERE = pathlib.Path("target/api-test")
# The test has secrets of its own. With the public ones of development, Waybill would not trust any proxy.
STOREFRONT_SECRET = "storefront-secret-of-the-api-test"
PAYMENT_SECRET = "payment-secret-of-the-api-test"
SHOP = "shop.example"


def say(text):
    print(f"api-test: {text}", flush=True)


def fail(text):
    print(f"api-test: FAILED: {text}", file=sys.stderr, flush=True)
    sys.exit(1)


def free_ports():
    """The first of two free ports that follow one another. The sandbox takes the second."""
    for port in range(20000 + os.getpid() % 20000, 60000, 2):
        try:
            for taken in (port, port + 1):
                with socket.socket() as listener:
                    listener.bind(("127.0.0.1", taken))
            return port
        except OSError:
            continue
    fail("no port is free")


def eventually(what, look):
    for _ in range(300):
        found = look()
        if found:
            return found
        time.sleep(0.1)
    fail(f"within 30 seconds: {what}")


class Waybill:
    """The program with its sandbox, its database and its log in a folder of its own."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        port = free_ports()
        self.url = f"http://127.0.0.1:{port}"
        self.sandbox = f"http://127.0.0.1:{port + 1}"
        self.settings = {
            "PATH": os.environ["PATH"],
            "LISTEN_ADDR": f"127.0.0.1:{port}",
            "PUBLIC_URL": self.url,
            "DATABASE_URL": f"sqlite://{folder}/waybill.db",
            "PRIVACY_EXPORT_URL": f"file://{folder}/exports",
            "STOREFRONT_WEBHOOK_SECRET": STOREFRONT_SECRET,
            "PAYMENT_WEBHOOK_SECRET": PAYMENT_SECRET,
            "SECRETS_KEY": "key-of-the-secrets-of-the-api-test",
            "PRIVACY_SHOP_REDACT_HOLD_SECONDS": "3600",
            "TRUSTED_PROXIES": "127.0.0.1",
            "STOREFRONT_RATE_PER_SECOND": "0",
            "PAYMENT_RATE_PER_SECOND": "0",
            "AUTH_DEVICE_CODES_PER_15_MINUTES": "0",
            "AUTH_VALIDATIONS_PER_MINUTE": "0",
            "COMMERCE_RATE_PER_SECOND": "0",
            "CHECKOUT_RETURN_ORIGINS": "https://shop.example",
            "LOG_FORMAT": "json",
            "RUST_LOG": "info",
        }
        self.log = folder / "log"
        providers = [binary, "sandbox", "serve", "--listen", f"127.0.0.1:{port + 1}"]
        self.providers = subprocess.Popen(
            providers, env=self.settings, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.settings |= self.settings_of_providers()
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [binary, "serve"], env=self.settings, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
            )
        eventually("the service is ready", self.is_ready)

    def settings_of_providers(self):
        """The settings that the sandbox prints, up to the empty line after them."""
        settings = {}
        for line in self.providers.stdout:
            name, is_setting, value = line.strip().partition("=")
            if is_setting:
                settings[name] = value
            elif settings:
                return settings
        fail(f"the sandbox ended with {self.providers.wait()}")

    def is_ready(self):
        if self.process.poll() is not None:
            fail(f"it ended with {self.process.returncode}: {self.log.read_text()[-2000:]}")
        try:
            return requests.get(f"{self.url}/readyz", timeout=2).status_code == 200
        except requests.RequestException:
            return False

    def command(self, *arguments):
        done = subprocess.run(
            [self.binary, *arguments, "--json"], env=self.settings, capture_output=True, text=True, check=True
        )
        return done.stdout

    def control(self, path, body):
        answer = requests.post(f"{self.sandbox}/_control/{path}", json=body, timeout=60)
        answer.raise_for_status()
        return answer

    def deliver(self, topic, body):
        shop = body.get("shop_domain", SHOP)
        body = json.dumps(body).encode()
        digest = hmac.new(STOREFRONT_SECRET.encode(), body, hashlib.sha256).digest()
        headers = {
            "Content-Type": "application/json",
            "X-Storefront-Topic": topic,
            "X-Storefront-Shop-Domain": shop,
            "X-Storefront-Hmac-Sha256": base64.b64encode(digest).decode(),
        }
        answer = requests.post(f"{self.url}/api/webhooks/storefront", data=body, headers=headers, timeout=10)
        answer.raise_for_status()
        return answer.headers["X-Request-Id"]

    def stop(self):
        for process in (self.process, self.providers):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


def seed(waybill):
    """Makes orders in all states, privacy requests, an export with a link, logins and an API key."""
    key = json.loads(waybill.command("keys", "create", "api-test"))["key"]
    narrow = json.loads(waybill.command("keys", "create", "narrow", "--scope", "qr:write", "--shop", "one.example"))["key"]
    api = requests.Session()
    api.headers["Authorization"] = f"Bearer {key}"
    many = 10**9
    waybill.control("identity/rules", {"calls_per_hour": many, "lock_after": many, "interval": 1})
    waybill.control("storm", {"orders": 30, "seed": 1})
    shops = ["one.example", "two.example"]
    for shop in shops:
        order = {"id": 7, "updated_at": "2026-11-20T14:24:44Z", "currency": "EUR", "total_price": "19.90"}
        waybill.deliver("orders/create", {**order, "shop_domain": shop})

    def created():
        events = json.loads(waybill.command("events", "list", "--type", "order.created", "--limit", "100"))
        events = events["items"]
        return events if len(events) == 32 else None

    events = eventually("the orders are there", created)
    orders = []
    for event in events:
        shop = event["shop"] or ""
        order = api.get(f"{waybill.url}/api/commerce/orders/{event['object_id']}", params={"shop": shop}, timeout=10).json()
        parcels = [parcel["tracking_number"] for shipment in order["shipments"] for parcel in shipment["parcels"]]
        orders.append({"id": order["id"], "shop": shop, "parcels": parcels})
    # A schema cannot express which cursors there are.
    cursors, page = [], {"limit": 5}
    while page.get("after", "first"):
        page["after"] = api.get(f"{waybill.url}/api/commerce/orders", params=page, timeout=10).json()["next"]
        cursors += [page["after"]] if page["after"] else []
    # The order that two shops have is listed as often as all others together.
    several = [order for order in orders if order["id"] == 7]
    orders += several * (len(orders) // 2)
    customer = {"id": 7, "email": "ada@example.com"}
    requested = [
        waybill.deliver("customers/data_request", {"shop_domain": shop, "customer": customer, "orders_requested": []})
        for shop in (SHOP, *shops)
    ]
    exported = requested[0]
    requested.append(waybill.deliver("customers/redact", {"shop_domain": SHOP, "customer": {"id": 8}, "orders_to_redact": []}))
    requested += [waybill.deliver("shop/redact", {"shop_id": n, "shop_domain": f"closed-{n}.example"}) for n in range(20)]
    path = f"{waybill.url}/api/privacy/requests/{exported}"
    eventually("an export is written", lambda: api.get(path, timeout=10).json()["state"] == "done")
    link = requests.Request("GET", api.post(f"{path}/export-link", timeout=10).json()["url"]).prepare().url
    query = dict(part.split("=", 1) for part in link.split("?", 1)[1].split("&"))
    begun = [requests.post(f"{waybill.url}/auth/device/code", timeout=10).json() for _ in range(6)]
    waybill.control("identity/approve", {"user_code": begun[0]["user_code"], "login": "octavia"})
    waybill.control("identity/deny", {"user_code": begun[1]["user_code"]})
    waybill.control("identity/expire", {"user_code": begun[2]["user_code"]})
    polled = requests.post(
        f"{waybill.url}/auth/device/token", data={"device_code": begun[0]["device_code"]}, timeout=10
    )
    polled.raise_for_status()
    return {
        "api_key": key,
        "narrow_key": narrow,
        "storefront_secret": STOREFRONT_SECRET,
        "payment_secret": PAYMENT_SECRET,
        "token": polled.json()["access_token"],
        "orders": orders,
        "cursors": cursors,
        "parcels": [parcel for order in orders for parcel in order["parcels"]] or ["none"],
        "requests": requested,
        "links": [{"id": exported, **query}],
        "device_codes": [code["device_code"] for code in begun],
    }


def check_description(document):
    """Checks that the description is OpenAPI 3.1, and that its examples match their schemas."""
    errors = [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()]
    if errors:
        fail("the description is not OpenAPI 3.1: " + "; ".join(errors[:5]))
    identifiers = [
        operation["operationId"]
        for section in ("paths", "webhooks")
        for item in document[section].values()
        for operation in item.values()
    ]
    twice = [name for name, count in collections.Counter(identifiers).items() if count > 1]
    if twice:
        fail(f"operations with the same id: {twice}")
    checked, wrong = 0, []

    def check(schema, example, place):
        nonlocal checked
        checked += 1
        whole = {**schema, "components": document["components"]}
        for error in jsonschema_rs.Draft202012Validator(whole, validate_formats=True).iter_errors(example):
            wrong.append(f"{place}: {error.message}")

    def walk(value, place):
        if isinstance(value, list):
            for nth, one in enumerate(value):
                walk(one, f"{place}/{nth}")
        if not isinstance(value, dict):
            return
        if isinstance(value.get("schema"), dict):
            if "example" in value:
                check(value["schema"], value["example"], place)
            for name, one in (value.get("examples") or {}).items():
                check(value["schema"], one["value"], f"{place}/{name}")
        for key, one in value.items():
            if key not in ("example", "examples"):
                walk(one, f"{place}/{key}")

    walk(document["paths"], "paths")
    walk(document["webhooks"], "webhooks")
    for name, schema in document["components"]["schemas"].items():
        for field, shape in schema.get("properties", {}).items():
            if "example" in shape:
                check(shape, shape["example"], f"{name}.{field}")
    if wrong:
        fail("examples that are not as described: " + "; ".join(wrong[:10]))
    say(f"OpenAPI 3.1, {len(identifiers)} operations and events, {checked} examples are as described")


def run(waybill, arguments, seeded, report):
    # About a thousand requests come from the schemas alone. The rest is shared among the operations that have
    # parameters or a body.
    each = max(2, (arguments.requests - 1000) // 24)
    answers = report / "answers.json"
    (report / "seeded.json").write_text(json.dumps(seeded))
    environment = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "hooks",
        "PYTHONPATH": str(HERE),
        "API_TEST_SEEDED": str(report / "seeded.json"),
        "API_TEST_ANSWERS": str(answers),
        "API_TEST_SEED": str(arguments.seed),
    }
    command = [
        str(pathlib.Path(sys.executable).absolute().with_name("schemathesis")),
        "--config-file", str(HERE / "schemathesis.toml"),
        "run", f"{waybill.url}/openapi.json",
        "--workers", str(arguments.workers),
        "--max-examples", str(each),
        "--seed", str(arguments.seed),
        "--continue-on-failure", "--no-color", "--warnings", "off",
        "--generation-database", "none",
        "--suppress-health-check", "all",
        "--request-timeout", "20",
        # A stream has no end that a tester could wait for; the tests are in waybill/tests/it/api/reading.rs and live.rs.
        "--exclude-path", "/api/events/stream",
        "--exclude-path", "/api/deliveries/stream",
    ]  # fmt: skip
    begun = time.monotonic()
    with open(report / "output", "w") as output:
        done = subprocess.run(command, cwd=report, env=environment, stdout=output, stderr=subprocess.STDOUT)
    seconds = time.monotonic() - begun
    counted = json.loads(answers.read_text()) if answers.exists() else []
    statuses = collections.Counter()
    for _, status, count in counted:
        statuses[status] += count
    summary = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
    say(f"{sum(statuses.values())} requests in {seconds:.0f} seconds ({summary})")
    return done.returncode, counted


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--binary", default="target/debug/waybill")
    parser.add_argument("--report", type=pathlib.Path, default=THERE / "report")
    arguments = parser.parse_args()
    arguments.report = arguments.report.resolve()
    shutil.rmtree(arguments.report, ignore_errors=True)
    arguments.report.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        waybill = Waybill(arguments.binary, pathlib.Path(folder))
        try:
            document = requests.get(f"{waybill.url}/openapi.json", timeout=10).json()
            check_description(document)
            seeded = seed(waybill)
            status, counted = run(waybill, arguments, seeded, arguments.report)
            if not waybill.is_ready():
                fail("it is not ready any more")
        finally:
            waybill.stop()
            log = waybill.log.read_text()
            (arguments.report / "log").write_text(log)
    output = (arguments.report / "output").read_text()
    panics = [line for line in log.splitlines() if '"a panic"' in line or "panicked at" in line]
    if panics:
        fail(f"it panicked: {panics[0]}")
    described = {
        (f"{method.upper()} {path}", int(code))
        for path, item in document["paths"].items()
        for method, operation in item.items()
        for code in operation["responses"]
    }
    seen = {(operation, code) for operation, code, _ in counted}
    unseen = sorted(f"{operation} {code}" for operation, code in described - seen if code < 500)
    say(f"described and not seen: {', '.join(unseen) or 'nothing'}")
    if status:
        print(output[output.find("= FAILURES") :], file=sys.stderr)
        fail(f"answers are not as described; {arguments.report}/output tells which")
    say("every answer is as described")


main()
