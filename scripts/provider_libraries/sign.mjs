// Prints requests that the libraries of JavaScript have signed; the argument is the folder of bodies.
import { readFileSync } from "node:fs";
import "@shopify/shopify-api/adapters/node";
import { ApiVersion, shopifyApi } from "@shopify/shopify-api";
import { createSHA256HMAC, HashFormat } from "@shopify/shopify-api/runtime";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";

const fixtures = process.argv[2];
const read = (name) => readFileSync(`${fixtures}/${name}`, "utf8");

const show = (library, provider, path, secret, headers, body) =>
  console.log(JSON.stringify({ library: `${library} (JavaScript)`, provider, path, secret, headers, body }));

{
  const secret = "shopify-library-secret-of-an-app";
  const versions = Object.values(ApiVersion).filter((version) => /^\d/.test(version)).sort();
  const apiVersion = versions.at(-1);
  const shopify = shopifyApi({
    apiKey: "key", apiSecretKey: secret, scopes: [], hostName: "shop.example", hostScheme: "https", apiVersion,
    isEmbeddedApp: false, logger: { level: 0 },
  });
  const body = read("storefront/orders_any_topic.2026-07.json");
  const headers = {
    "X-Shopify-Topic": "orders/create",
    "X-Shopify-Hmac-Sha256": await createSHA256HMAC(secret, body, HashFormat.Base64),
    "X-Shopify-Shop-Domain": "shop.example",
    "X-Shopify-API-Version": apiVersion,
    "X-Shopify-Webhook-Id": "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043",
    "X-Shopify-Event-Id": "98880550-7158-44d4-b7cd-2c97c8a091b5",
  };
  const request = { method: "POST", url: "/api/webhooks/storefront", headers };
  const response = { writeHead() {}, end() {}, setHeader() {} };
  const checked = await shopify.webhooks.validate({ rawBody: body, rawRequest: request, rawResponse: response });
  if (!checked.valid) throw new Error(`the library does not take its own signature: ${JSON.stringify(checked)}`);
  show("@shopify/shopify-api", "shopify", "storefront", secret, headers, body);
}

{
  const secret = "whsec_javascript_stripe_library_secret";
  const stripe = new Stripe("sk_test_none");
  const payload = read("payment/charge.refunded.2026-10-28.endive.json");
  const header = stripe.webhooks.generateTestHeaderString({ payload, secret });
  stripe.webhooks.constructEvent(payload, header, secret);
  show("stripe", "stripe", "payment", secret, { "Stripe-Signature": header }, payload);
}

{
  const secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
  const webhook = new Webhook(secret);
  const order = read("storefront/orders_any_topic.2024-04.json");
  const body = `{"type":"orders/create","timestamp":"2026-10-28T10:22:45Z","data":${order}}`;
  const now = new Date();
  const headers = {
    "webhook-id": "msg_javascript_1",
    "webhook-timestamp": String(Math.floor(now.getTime() / 1000)),
    "webhook-signature": webhook.sign("msg_javascript_1", now, body),
  };
  webhook.verify(body, headers);
  show("standardwebhooks", "standard-webhooks", "storefront", secret, headers, body);
}
