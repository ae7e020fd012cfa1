"""Prints requests that the libraries of Python have signed; the argument is the folder of bodies."""

import json
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import stripe
from standardwebhooks import Webhook

FIXTURES = Path(sys.argv[1])
STRIPE_SECRET = "whsec_python_stripe_library_secret"
STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def show(library, provider, path, secret, headers, body):
    print(json.dumps({
        "library": f"{library} (Python)", "provider": provider, "path": path, "secret": secret,
        "headers": headers, "body": body,
    }))


def stripes(name):
    body = (FIXTURES / name).read_text()
    now = int(time.time())
    digest = stripe.WebhookSignature._compute_signature(f"{now}.{body}", STRIPE_SECRET)
    header = f"t={now},v1={digest}"
    stripe.WebhookSignature.verify_header(body, header, STRIPE_SECRET, tolerance=300)
    show("stripe", "stripe", "payment", STRIPE_SECRET, {"Stripe-Signature": header}, body)


def standard(path, identifier, body):
    webhook = Webhook(STANDARD_SECRET)
    now = datetime.now(tz=timezone.utc)
    headers = {
        "webhook-id": identifier,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": webhook.sign(identifier, now, body),
    }
    webhook.verify(body, headers)
    show("standardwebhooks", "standard-webhooks", path, STANDARD_SECRET, headers, body)


stripes("payment/payment_intent.succeeded.2026-10-28.endive.json")
stripes("profiles/stripe.thin_event.json")
order = json.loads((FIXTURES / "storefront/orders_any_topic.2026-07.json").read_text())
standard("storefront", "msg_python_1", json.dumps({"type": "order.created", "data": order}))
event = json.loads((FIXTURES / "payment/charge.refunded.2026-10-28.endive.json").read_text())
standard("payment", "msg_python_2", json.dumps(
    {"type": "charge.refunded", "timestamp": "2026-10-28T10:22:45Z", "data": event["data"]}))
