"""A FastAPI receiver: it verifies the signature over the raw body, and answers after one committed insert that leaves
a known id alone. uvicorn runs one process for each processor, with uvloop and httptools."""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import sys

import asyncpg
import uvicorn
from fastapi import FastAPI, Request, Response

SECRET = os.environ["STOREFRONT_WEBHOOK_SECRET"].encode()
INSERT = "insert into deliveries (id, topic, shop, body) values ($1, $2, $3, $4) on conflict (id) do nothing"


async def keep(_):
    """Spares the statement that resets a connection after each use: an insert leaves nothing to reset."""


@contextlib.asynccontextmanager
async def lifespan(app):
    pool = asyncpg.create_pool(os.environ["PEER_DATABASE_URL"], min_size=10, max_size=20, reset=keep)
    async with pool:
        app.state.pool = pool
        yield


app = FastAPI(lifespan=lifespan, openapi_url=None)


@app.get("/readyz")
async def ready():
    return {}


@app.post("/api/webhooks/storefront")
async def accept(request: Request):
    body = await request.body()
    headers = request.headers
    expected = base64.b64encode(hmac.digest(SECRET, body, hashlib.sha256)).decode()
    if not hmac.compare_digest(expected.encode(), headers.get("x-storefront-hmac-sha256", "").encode()):
        return Response('{"error":"signature"}', 401, media_type="application/json")
    delivery = headers.get("x-storefront-webhook-id")
    if not delivery:
        return Response('{"error":"id"}', 400, media_type="application/json")
    json.loads(body)
    topic, shop = headers.get("x-storefront-topic"), headers.get("x-storefront-shop-domain")
    # asyncpg prepares the statement once for each connection.
    await request.app.state.pool.execute(INSERT, delivery, topic, shop, body)
    return Response('{"status":"ok"}', media_type="application/json")


if __name__ == "__main__":
    uvicorn.run("fastapi_receiver:app", host="127.0.0.1", port=int(sys.argv[1]), workers=os.cpu_count(),
                loop="uvloop", http="httptools", access_log=False, log_level="warning")
