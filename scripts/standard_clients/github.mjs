// Logs in with the client that GitHub's own library uses. The client knows GitHub's two paths. The `fetch` that it
// takes as an option redirects these to ours.
import { createOAuthDeviceAuth } from "@octokit/auth-oauth-device";
import { request } from "@octokit/request";
import assert from "node:assert/strict";

const url = process.argv[2];
const paths = {
  "/login/device/code": "/auth/device/code",
  "/login/oauth/access_token": "/auth/device/token",
};
const answers = [];
const here = async (address, options) => {
  const answer = await fetch(url + paths[new URL(address).pathname], options);
  answers.push(answer.status);
  return answer;
};
const auth = createOAuthDeviceAuth({
  clientType: "oauth-app",
  clientId: "any-client",
  scopes: ["read:user", "user:email"],
  request: request.defaults({ request: { fetch: here } }),
  onVerification(begun) {
    setTimeout(async () => {
      const body = new URLSearchParams({
        user_code: begun.user_code,
        login: "octavia",
        decision: "approve",
      });
      const answer = await fetch(begun.verification_uri, { method: "POST", body });
      assert.equal(answer.status, 200);
    }, 6000);
  },
});
const { token, scopes } = await auth({ type: "oauth" });
assert.ok(answers.includes(428), "it was pending for a while");
assert.deepEqual(scopes, ["read:user", "user:email"]);
const answer = await request(`GET ${url}/auth/validate`, {
  headers: { authorization: `bearer ${token}` },
});
assert.equal(answer.data.username, "octavia");
console.log("@octokit/auth-oauth-device: logged in as", answer.data.username, "with tier", answer.data.tier);
