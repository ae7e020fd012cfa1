"""What Schemathesis changes in each request before it is sent, and what it records about each answer.

Credentials are added last, because a signature is made over the bytes that are sent.
"""

import base64
import collections
import hashlib
import hmac
import json
import os
import random
import threading
import time

import requests
import requests.auth
import schemathesis

SEEDED = json.loads(open(os.environ["API_TEST_SEEDED"]).read())
SEED = int(os.environ["API_TEST_SEED"])
MARK = "X-Api-Test-Credential"

lock = threading.Lock()
random_numbers = random.Random(SEED)
answers = collections.Counter()


def chance(one_in):
    with lock:
        return random_numbers.randrange(one_in) == 0


def choice(of):
    with lock:
        return random_numbers.choice(of)


def address():
    with lock:
        return ".".join(str(random_numbers.randrange(1, 255)) for _ in range(4))


def sign(secret, payload):
    return hmac.new(secret.encode(), payload, hashlib.sha256)


class Credential(requests.auth.AuthBase):
    """Adds the credential that an operation needs, or in one of ten requests a wrong one."""

    def __init__(self, scheme):
        self.scheme = scheme

    def __call__(self, request):
        # Every request comes from another address, because limits by address are not tested here.
        request.headers["X-Forwarded-For"] = address()
        # The signature of a link is one of its parameters. It is the generated one, or that of a link that was really
        # made.
        if self.scheme in (None, "exportLink"):
            return request
        right = not chance(10)
        request.headers[MARK] = "right" if right else "wrong"
        body = request.body or b""
        if isinstance(body, str):
            body = body.encode()
        if self.scheme == "apiKey":
            key = SEEDED["api_key"] if right else choice(["wb_" + "0" * 64, "wb_", "", "x", SEEDED["token"]])
            if right and chance(20):
                key = SEEDED["narrow_key"]
            request.headers["Authorization"] = f"Bearer {key}"
        elif self.scheme == "accessToken":
            wrong = ["gho_" + "0" * 36, "x", "", SEEDED["api_key"]]
            token = SEEDED["token"] if right else choice(wrong)
            request.headers["Authorization"] = f"Bearer {token}"
        elif self.scheme == "storefrontSignature":
            secret = SEEDED["storefront_secret"] if right else "another secret"
            digest = sign(secret, body).digest()
            request.headers["X-Storefront-Hmac-Sha256"] = base64.b64encode(digest).decode()
        elif self.scheme == "paymentSignature":
            secret = SEEDED["payment_secret"] if right else "another secret"
            now = int(time.time())
            digest = sign(secret, f"{now}.".encode() + body).hexdigest()
            request.headers["Payment-Signature"] = f"t={now},v1={digest}"
        return request


def scheme_of(case):
    security = case.operation.definition.raw.get("security") or []
    return next(iter(security[0])) if security else None


def is_right(case):
    meta = case.meta
    return meta is None or meta.generation.mode.is_positive


@schemathesis.hook
def before_call(context, case, kwargs):
    kwargs["auth"] = Credential(scheme_of(case))
    # A request that waits longer for events is answered in the same way, only later.
    if case.query and str(case.query.get("wait")) in map(str, range(2, 31)):
        case.query["wait"] = 1
    if is_right(case) and case.operation.path == "/api/commerce/orders" and case.query and "after" in case.query:
        case.query["after"] = choice(SEEDED["cursors"])
    # Half of the right requests ask for something that exists, so that not every answer is a 404.
    if not is_right(case) or chance(2):
        return
    path = case.path_parameters
    if path and "order_id" in path:
        order = choice(SEEDED["orders"])
        path["order_id"] = order["id"]
        if case.query and "shop" in case.query:
            case.query["shop"] = order["shop"]
            if chance(3):
                del case.query["shop"]
        if "tracking_number" in path and order["parcels"]:
            path["tracking_number"] = choice(order["parcels"])
    elif path and "tracking_number" in path:
        path["tracking_number"] = choice(SEEDED["parcels"])
    elif path and "id" in path and scheme_of(case) == "exportLink":
        link = choice(SEEDED["links"])
        path["id"] = link["id"]
        case.query = {"expires": link["expires"], "signature": link["signature"]}
    elif path and "id" in path and case.operation.path.startswith("/api/privacy/requests/"):
        path["id"] = choice(SEEDED["requests"])
    elif case.operation.path == "/api/commerce/checkout" and isinstance(case.body, dict):
        case.body["return_url"] = "https://shop.example/thanks"
        case.body.pop("cancel_url", None)
        case.body.pop("shop", None)
        if chance(2):
            item = {"name": "Enamel mug", "amount": 1450, "currency": "EUR", "quantity": 2}
            case.body["line_items"] = [item]
    elif case.operation.path == "/auth/device/token":
        code = choice(SEEDED["device_codes"])
        if case.query and "device_code" in case.query:
            case.query["device_code"] = code
        elif isinstance(case.body, dict) and "device_code" in case.body:
            case.body["device_code"] = code


# A disk that stands still for seconds makes the service answer 503, as it should. Who is answered so asks again.
AGAIN = 3


@schemathesis.hook
def after_call(context, case, response):
    for _ in range(AGAIN):
        if response.status_code != 503:
            break
        time.sleep(int(response.headers.get("retry-after", ["1"])[0]))
        with requests.Session() as session:
            again = session.send(response.request, timeout=20, allow_redirects=False)
        again = schemathesis.Response.from_requests(again, verify=True, _override=response._override)
        for name in again.__slots__:
            setattr(response, name, getattr(again, name))
    operation = f"{case.operation.method.upper()} {case.operation.path}"
    with lock:
        answers[operation, response.status_code] += 1
        if sum(answers.values()) % 200 == 0:
            write()


def write():
    counted = [[operation, status, count] for (operation, status), count in sorted(answers.items())]
    with open(os.environ["API_TEST_ANSWERS"], "w") as file:
        json.dump(counted, file)


@schemathesis.hook
def after_validate(context, case, response, results):
    with lock:
        write()


@schemathesis.check
def a_wrong_credential_is_refused(context, response, case):
    sent = response.request.headers if response.request is not None else {}
    if sent.get(MARK) == "wrong" and response.status_code < 400:
        raise AssertionError(f"a wrong credential was answered {response.status_code}")


@schemathesis.check
def an_answer_has_an_id(context, response, case):
    if "x-request-id" not in response.headers:
        raise AssertionError("X-Request-Id is missing")


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Forbids fields that are not described in answers. Clients must not rely on this, so the description does not say it."""
    components = raw_schema["components"]["schemas"]
    strict = set()
    merged = set()

    def walk(schema, is_part=False):
        if isinstance(schema, list):
            for one in schema:
                walk(one, is_part)
        if not isinstance(schema, dict):
            return
        reference = schema.get("$ref", "")
        name = reference.rsplit("/", 1)[-1]
        if reference:
            if is_part:
                merged.add(name)
            if name not in strict:
                strict.add(name)
                walk(components[name])
            return
        for key, value in schema.items():
            if key not in ("example", "examples", "enum"):
                walk(value, key == "allOf")

    for item in raw_schema["paths"].values():
        for operation in item.values():
            for response in operation["responses"].values():
                for content in response["content"].values():
                    walk(content["schema"])
    for name in strict - merged:
        schema = components[name]
        if "properties" in schema or "allOf" in schema:
            schema["unevaluatedProperties"] = False
