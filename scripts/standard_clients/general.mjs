// Logs in with openid-client, which knows RFC 8628 and nothing about Waybill.
import * as client from "openid-client";
import assert from "node:assert/strict";

const url = process.argv[2];
// It finds the endpoints by itself (RFC 8414). Without the last option it accepts only https.
const config = await client.discovery(new URL(url), "any-client", undefined, client.None(), {
  algorithm: "oauth2",
  execute: [client.allowInsecureRequests],
});

const begun = await client.initiateDeviceAuthorization(config, {});
setTimeout(async () => {
  const body = new URLSearchParams({
    user_code: begun.user_code,
    login: "octavia",
    decision: "approve",
  });
  const answer = await fetch(begun.verification_uri, { method: "POST", body });
  assert.equal(answer.status, 200);
}, 6000);
const tokens = await client.pollDeviceAuthorizationGrant(config, begun);
assert.equal(tokens.scope, "read:user user:email");
const answer = await client.fetchProtectedResource(
  config,
  tokens.access_token,
  new URL(`${url}/auth/validate`),
  "GET",
);
const who = await answer.json();
assert.equal(who.username, "octavia");
console.log("openid-client: logged in as", who.username, "with tier", who.tier);
