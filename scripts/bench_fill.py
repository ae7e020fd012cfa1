"""Posts N signed orders/create deliveries to a running ingress, each with an order of its own.

Usage: bench_fill.py URL N [FIRST], with STOREFRONT_WEBHOOK_SECRET set. Every answer must have the status 200, or the one that
BENCH_EXPECT names. BENCH_RUN distinguishes the ids of these deliveries from those of another run, and FIRST (0) the orders.
"""

import base64
import hashlib
import hmac
import http.client
import json
import multiprocessing
import os
import sys
from urllib.parse import urlsplit

PROCESSES = 2


def body(number: int, changes: dict | None = None) -> str:
    number += 1
    lines = [{"id": number * 10 + n, "variant_id": 39072856 + n, "title": "Linen apron, natural, one size",
              "quantity": 1 + n, "price": "89.99", "sku": f"APRON-{n}", "fulfillment_status": None} for n in range(3)]
    address = {"first_name": "Bob", "last_name": "Example", "address1": "1 Example Street", "city": "Ottawa",
               "province": "Ontario", "country": "Canada", "zip": "K2P0V6", "phone": "555-555-0100"}
    # Customers come in no sequence of their addresses.
    email = f"{hashlib.md5(str(number).encode()).hexdigest()[:12]}@example.com"
    return json.dumps({
        "id": 5_000_000_000_000 + number, "name": f"#{number}", "email": email,
        "created_at": "2027-01-14T10:00:00-05:00", "updated_at": "2027-01-14T10:00:00-05:00",
        "total_price": "403.00", "subtotal_price": "393.00", "total_tax": "10.00", "currency": "USD",
        "financial_status": "paid", "fulfillment_status": None,
        "customer": {"id": 7_000_000_000_000 + number, "email": email, "first_name": "Bob"},
        "line_items": lines, "shipping_address": address, "billing_address": address, **(changes or {}),
    }, separators=(",", ":"))


def post(url: str, first: int, count: int, topic: str, run: str, changes: dict) -> None:
    secret = os.environ["STOREFRONT_WEBHOOK_SECRET"].encode()
    expected = int(os.environ.get("BENCH_EXPECT", "200"))
    lanes = [http.client.HTTPConnection(urlsplit(url).netloc) for _ in range(32)]
    for start in range(first, first + count, len(lanes)):
        used = list(zip(lanes, range(start, min(start + len(lanes), first + count))))
        for lane, number in used:
            text = body(number, changes).encode()
            signature = base64.b64encode(hmac.new(secret, text, hashlib.sha256).digest()).decode()
            lane.request("POST", "/api/webhooks/storefront", text, {
                "Content-Type": "application/json", "X-Storefront-Topic": topic,
                "X-Storefront-Shop-Domain": "bench.example", "X-Storefront-Webhook-Id": f"{run}-{number}",
                "X-Storefront-Hmac-Sha256": signature})
        for lane, number in used:
            answer = lane.getresponse()
            answer.read()
            if answer.status != expected:
                sys.exit(f"delivery {number} was answered {answer.status}")


def fill(url: str, total: int, first: int, topic: str, run: str, changes: dict) -> int:
    """Posts one delivery of each order, with these members changed. The exit code of a process."""
    share = -(-total // PROCESSES)
    workers = [multiprocessing.Process(target=post, args=(url, first + n * share, min(share, total - n * share), topic, run, changes))
               for n in range(PROCESSES)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return max(worker.exitcode or 0 for worker in workers)


def main() -> None:
    url, total, first = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0
    sys.exit(fill(url, total, first, "orders/create", os.environ.get("BENCH_RUN", "fill"), {}))


if __name__ == "__main__":
    main()
