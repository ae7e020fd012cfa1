// Logs in with openid-client, which knows RFC 8628 and nothing of Waybill.
import * as client from "openid-client";

const url = process.argv[2];
// It finds the endpoints by itself (RFC 8414). Without the last option it accepts only https.
const config = await client.discovery(new URL(url), "any-client", undefined, client.None(), {
  algorithm: "oauth2",
  execute: [client.allowInsecureRequests],
});
const begun = await client.initiateDeviceAuthorization(config, {});
const { user_code, verification_uri } = begun;
console.log(JSON.stringify({ user_code, verification_uri }));

const { access_token, scope } = await client.pollDeviceAuthorizationGrant(config, begun);
const validate = new URL(`${url}/auth/validate`);
const answer = await client.fetchProtectedResource(config, access_token, validate, "GET");
const { username } = await answer.json();
console.log(JSON.stringify({ username, scope, access_token }));
