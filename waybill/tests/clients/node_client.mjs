// Posts bodies that are refused before they are read: node_client.mjs KIND HOST:PORT ROUNDS.
import http from 'node:http';

const [kind, address, rounds] = process.argv.slice(2);
const KIB = 1024;
const CASES = [
  ['/api/webhooks/payment', 16 * KIB * KIB, {}],
  ['/api/webhooks/storefront', 2 * KIB * KIB + 1, {}],
  ['/api/webhooks/storefront', KIB * KIB, {}],
  ['/api/webhooks/payment', 2 * KIB * KIB + 1, {}],
  ['/nowhere', 512 * KIB, {}],
  ['/livez', 512 * KIB, {}],
  ['/api/webhooks/payment', KIB * KIB, { 'Content-Encoding': 'gzip' }],
  ['/api/commerce/checkout', 512 * KIB, {}],
];

const ask = {
  http: (path, size, headers) =>
    new Promise((resolve, reject) => {
      headers = { ...headers, 'Content-Length': size };
      const request = http.request(`http://${address}${path}`, { method: 'POST', headers }, (answer) => {
        answer.on('end', () => resolve(answer.statusCode));
        answer.on('error', reject);
        answer.resume();
      });
      request.on('error', reject);
      request.end(Buffer.alloc(size, ' '));
    }),
  fetch: async (path, size, headers) => {
    const body = Buffer.alloc(size, ' ');
    const answer = await fetch(`http://${address}${path}`, { method: 'POST', headers, body });
    await answer.text();
    return answer.status;
  },
}[kind];

for (let turn = 0; turn < Number(rounds); turn += 1) {
  const which = turn % CASES.length;
  try {
    console.log(which, await ask(...CASES[which]));
  } catch (error) {
    console.log(which, 'lost', error.message, error.cause?.message ?? '');
  }
}
