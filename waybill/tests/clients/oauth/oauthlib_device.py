"""Logs in with requests-oauthlib and oauthlib's client of RFC 8628, which know nothing of Waybill. They leave it to their
caller to wait between polls."""

import json
import os
import sys
import time

# Without this the library accepts only https.
os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"

from oauthlib.oauth2 import DeviceClient, OAuth2Error
from requests_oauthlib import OAuth2Session

url = sys.argv[1]
session = OAuth2Session(client=DeviceClient("any-client"))
begun = session.post(f"{url}/auth/device/code", withhold_token=True).json()
print(json.dumps({name: begun[name] for name in ("user_code", "verification_uri")}), flush=True)

interval, token = begun["interval"], None
while token is None:
    time.sleep(interval)
    try:
        code = {"device_code": begun["device_code"], "include_client_id": True}
        token = session.fetch_token(f"{url}/auth/device/token", **code)
    except OAuth2Error as error:
        if error.error not in ("authorization_pending", "slow_down"):
            raise
        interval += 5 if error.error == "slow_down" else 0
# The session now sends the token by itself.
username = session.get(f"{url}/auth/validate").json()["username"]
scope = " ".join(token["scope"])
print(json.dumps({"username": username, "scope": scope, "access_token": token["access_token"]}))
