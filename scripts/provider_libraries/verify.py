"""Verifies requests with the library of Standard Webhooks; the argument is a file with one on each line."""

import json
import sys

from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

requests = [json.loads(line) for line in open(sys.argv[1])]
for request in requests:
    try:
        Webhook(request["secret"]).verify(request["body"], request["headers"])
        good = True
    except WebhookVerificationError:
        good = False
    if good != request["good"]:
        sys.exit(f"standardwebhooks (Python): good is {good} for {request}")
print(f"standardwebhooks (Python): {len(requests)} requests are as they must be")
