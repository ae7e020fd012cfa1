// Verifies requests with the library of Standard Webhooks; the argument is a file with one on each line.
import { readFileSync } from "node:fs";
import { Webhook, WebhookVerificationError } from "standardwebhooks";

const requests = readFileSync(process.argv[2], "utf8").trim().split("\n").map((line) => JSON.parse(line));
for (const request of requests) {
  let good = true;
  try {
    new Webhook(request.secret).verify(request.body, request.headers);
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    good = false;
  }
  if (good !== request.good) throw new Error(`good is ${good} for ${JSON.stringify(request)}`);
}
console.log(`standardwebhooks (JavaScript): ${requests.length} requests are as they must be`);
