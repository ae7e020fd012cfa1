"""Imports every module of the Python client, and asks a running Waybill with it, if its address is given."""

import importlib
import os
import pkgutil
import sys

sys.path.insert(0, sys.argv[1])
import waybill_client  # noqa: E402

modules = [module.name for module in pkgutil.walk_packages(waybill_client.__path__, "waybill_client.")]
for module in modules:
    importlib.import_module(module)
print(f"openapi-python-client: {len(modules)} modules")
if len(sys.argv) > 2:
    from waybill_client import AuthenticatedClient
    from waybill_client.api.events import list_endpoints, list_events

    with AuthenticatedClient(base_url=sys.argv[2], token=os.environ["API_KEY"]) as client:
        for of in (list_endpoints, list_events):
            answer = of.sync(client=client)
            print(f"{of.__name__.rpartition('.')[2]}: {answer.to_dict()}")
