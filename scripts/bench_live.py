#!/usr/bin/env python3
"""Measures what the live view costs the intake. While wrk loads an ingress process, somebody watches in every
other window of a second; for each window it notes how much processor time the process used for a delivery. A
window is compared with the ones before and after it, so what else the machine does falls out.

Prints the medians of both, between which bounds the median of the ratios is with 95 % (bootstrap), and on the
second line that median.
"""

import argparse
import re
import statistics
import subprocess
import sys
import time
import urllib.request

from bench_tools import bounds, nanoseconds

ACCEPTED = re.compile(r'^waybill_deliveries_accepted_total\{[^}]*\} (\d+)', re.M)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--url", required=True, help="of the ingress, which serves /metrics")
    arguments.add_argument("--console", required=True, help="of its console")
    arguments.add_argument("--jar", required=True, help="cookies of somebody who is signed in")
    arguments.add_argument("--pid", type=int, required=True, help="of the ingress")
    arguments.add_argument("--pairs", type=int, default=60)
    arguments = arguments.parse_args()
    ratios, rates = [], []
    used = {False: [], True: []}
    lines = 0
    before = window(arguments, watched=False)
    for _ in range(arguments.pairs):
        watched = window(arguments, watched=True)
        after = window(arguments, watched=False)
        lines += watched["lines"]
        used[False].append(after["microseconds"])
        used[True].append(watched["microseconds"])
        ratios.append(watched["microseconds"] / statistics.mean([before["microseconds"], after["microseconds"]]))
        rates.append(watched["rate"] / statistics.mean([before["rate"], after["rate"]]))
        before = after
    if lines < arguments.pairs:
        sys.exit(f"who watched saw {lines} messages in {arguments.pairs} windows")
    low, high = bounds(ratios)
    print(f"{statistics.median(used[True]):.2f} us of a processor a delivery while somebody watches, "
          f"{statistics.median(used[False]):.2f} while nobody does; ratio {low:.3f} to {high:.3f}, "
          f"of deliveries a second {statistics.median(rates):.3f}; {lines} messages seen")
    print(f"{statistics.median(ratios):.3f}")


def window(arguments, watched):
    """A second of load, and how many messages somebody saw who watched."""
    watcher = None
    if watched:
        watcher = subprocess.Popen(
            ["curl", "-sN", "-b", arguments.jar, f"{arguments.console}/live/events"], stdout=subprocess.PIPE)
        # Until the first look, which only remembers what is there.
        time.sleep(0.3)
    begun, accepted, processor = time.monotonic(), deliveries(arguments.url), nanoseconds(arguments.pid)
    time.sleep(1)
    accepted, processor = deliveries(arguments.url) - accepted, nanoseconds(arguments.pid) - processor
    lasted = time.monotonic() - begun
    lines = 0
    if watcher:
        watcher.terminate()
        lines = watcher.communicate()[0].count(b"data:")
        # Until the process has noticed.
        time.sleep(0.3)
    if accepted == 0:
        sys.exit("nothing was accepted")
    return {"microseconds": processor / accepted / 1000, "rate": accepted / lasted, "lines": lines}


def deliveries(url):
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        return sum(int(number) for number in ACCEPTED.findall(answer.read().decode()))


main()
