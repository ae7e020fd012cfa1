// An Express receiver: it verifies the signature over the raw body, and answers after one committed insert that leaves
// a known id alone. One process for each processor.
import cluster from "node:cluster";
import crypto from "node:crypto";
import os from "node:os";
import express from "express";
import pg from "pg";

const [port] = process.argv.slice(2);
const secret = process.env.STOREFRONT_WEBHOOK_SECRET;
const INSERT = `insert into deliveries (id, topic, shop, body) values ($1, $2, $3, $4) on conflict (id) do nothing`;

if (cluster.isPrimary) {
    for (let n = 0; n < os.availableParallelism(); n++) cluster.fork();
    process.on("SIGTERM", () => process.exit(0));
} else {
    const pool = new pg.Pool({ connectionString: process.env.PEER_DATABASE_URL, max: 20 });
    const app = express();
    app.disable("x-powered-by");
    app.disable("etag");
    app.get("/readyz", (_, response) => response.json({}));
    app.post("/api/webhooks/storefront", express.raw({ type: () => true, limit: "2mb" }), async (request, response) => {
        const signed = Buffer.from(request.get("x-storefront-hmac-sha256") ?? "", "base64");
        const expected = crypto.createHmac("sha256", secret).update(request.body).digest();
        if (signed.length !== expected.length || !crypto.timingSafeEqual(signed, expected)) {
            return response.status(401).json({ error: "signature" });
        }
        const id = request.get("x-storefront-webhook-id");
        if (!id) return response.status(400).json({ error: "id" });
        JSON.parse(request.body);
        const values = [id, request.get("x-storefront-topic"), request.get("x-storefront-shop-domain"), request.body];
        await pool.query({ name: "accept", text: INSERT, values });
        response.json({ status: "ok" });
    });
    app.listen(Number(port), "127.0.0.1");
}
