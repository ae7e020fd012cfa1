"""Posts bodies that are refused before they are read: http_client.py KIND HOST:PORT ROUNDS."""

import http.client
import sys
import urllib.error
import urllib.request

kind, address, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
KIB = 1024
CASES = [
    ("POST", "/api/webhooks/payment", 16 * KIB * KIB, {}),
    ("POST", "/api/webhooks/storefront", 2 * KIB * KIB + 1, {}),
    ("POST", "/api/webhooks/storefront", KIB * KIB, {}),
    ("POST", "/api/webhooks/payment", 2 * KIB * KIB + 1, {}),
    ("POST", "/nowhere", 512 * KIB, {}),
    ("POST", "/livez", 512 * KIB, {}),
    ("POST", "/api/webhooks/payment", KIB * KIB, {"Content-Encoding": "gzip"}),
    ("POST", "/api/commerce/checkout", 512 * KIB, {}),
]


def with_http_client(method, path, size, headers):
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request(method, path, b" " * size, headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def with_urllib(method, path, size, headers):
    request = urllib.request.Request("http://" + address + path, b" " * size, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        error.read()
        return error.code


ask = {"http.client": with_http_client, "urllib": with_urllib}[kind]
for turn in range(rounds):
    case = CASES[turn % len(CASES)]
    try:
        print(turn % len(CASES), ask(*case))
    except Exception as error:
        print(turn % len(CASES), "lost", type(error).__name__, error)
