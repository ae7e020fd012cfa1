// Logs in with the client of GitHub's own libraries. It knows GitHub's two paths, and the `fetch` that it takes as an
// option leads them to ours.
import { createOAuthDeviceAuth } from "@octokit/auth-oauth-device";
import { request } from "@octokit/request";

const url = process.argv[2];
const paths = {
  "/login/device/code": "/auth/device/code",
  "/login/oauth/access_token": "/auth/device/token",
};
const here = (address, options) => fetch(url + paths[new URL(address).pathname], options);
const auth = createOAuthDeviceAuth({
  clientType: "oauth-app",
  clientId: "any-client",
  scopes: ["read:user", "user:email"],
  request: request.defaults({ request: { fetch: here } }),
  onVerification({ user_code, verification_uri }) {
    console.log(JSON.stringify({ user_code, verification_uri }));
  },
});
const { token, scopes } = await auth({ type: "oauth" });
// Its own hook would send GitHub's older `Authorization: token ..`.
const headers = { authorization: `Bearer ${token}` };
const { data } = await request(`GET ${url}/auth/validate`, { headers });
console.log(JSON.stringify({ username: data.username, scope: scopes.join(" "), access_token: token }));
