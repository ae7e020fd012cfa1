"""Logs in with requests-oauthlib, which knows RFC 8628 and nothing of Waybill."""

import os
import sys
import threading
import time

# Without this the library accepts only https.
os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"

import requests
from oauthlib.oauth2 import DeviceClient
from oauthlib.oauth2.rfc6749.errors import CustomOAuth2Error
from requests_oauthlib import OAuth2Session

url = sys.argv[1]
session = OAuth2Session(client=DeviceClient("any-client"))
begun = session.post(f"{url}/auth/device/code", withhold_token=True).json()


def approve():
    form = {"user_code": begun["user_code"], "login": "octavia", "decision": "approve"}
    requests.post(begun["verification_uri"], data=form, timeout=10).raise_for_status()


threading.Timer(6, approve).start()
interval, pending, token = begun["interval"], 0, None
while token is None:
    time.sleep(interval)
    try:
        token = session.fetch_token(
            f"{url}/auth/device/token", device_code=begun["device_code"], include_client_id=True
        )
    except CustomOAuth2Error as error:
        if error.error == "authorization_pending":
            pending += 1
        elif error.error == "slow_down":
            interval += 5
        else:
            raise
assert pending > 0, "it was pending for a while"
assert sorted(token["scope"]) == ["read:user", "user:email"], token["scope"]
# The session now sends the token by itself.
who = session.get(f"{url}/auth/validate").json()
assert who["username"] == "octavia", who
print("requests-oauthlib: logged in as", who["username"], "with tier", who["tier"])
