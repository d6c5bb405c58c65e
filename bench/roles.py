#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What tracing adds to a real role: microseconds of translator CPU per share, and the round trip of a
share, for each way of tracing, in turn within one run. usage: roles.py [ROUNDS [SECONDS [RATE]]]"""

import pathlib
import statistics
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent / "tests"
sys.path[:0] = [str(TESTS / "lab"), str(TESTS / "e2e")]

import harness  # noqa: E402
from check_roles import MINERS, Load, warm_up  # noqa: E402
from harness import Target, Trace  # noqa: E402
from lab import Lab  # noqa: E402

# what it is called, roletrace's options (None: not traced), its budget
WAYS = [
    ("untraced", None, None),
    ("all own functions, --exit sites", ("--exit", "sites"), "off"),
    ("all own functions, edges", (), "off"),
    ("all own functions, default budget", (), None),
]


def measure(lab, miners, options, budget, seconds):
    trace = (
        None
        if options is None
        else Trace(Target(lab.translator), *options, functions=(), budget=budget)
    )
    if trace:
        time.sleep(1)
    load = Load(lab, miners)
    time.sleep(seconds)
    done = load.end()
    if trace:
        trace.stop()
    shares = max(done["accepted"], 1)
    return {
        "per_s": done["per_s"],
        "cpu_us": done["cpu_percent"] / 100 * seconds * 1e6 / shares,
        "trip_ms": done["round_trip_ms"],
        "rejected": done["rejected"],
    }


def main():
    rounds, seconds, rate = (
        float(a) if a else b for a, b in zip((sys.argv[1:] + [None] * 3)[:3], (5, 6, 2.0))
    )
    rows = {name: [] for name, _, _ in WAYS}
    try:
        with Lab() as lab:
            miners = lab.start_miners(MINERS, rate)
            warm_up(miners)
            for _ in range(int(rounds)):
                for name, options, budget in WAYS:
                    rows[name].append(measure(lab, miners, options, budget, seconds))
    finally:
        harness.clean_up()
    print(f"### translator_sv2 under {MINERS * rate:.0f} shares/s, medians of {int(rounds)} rounds")
    print()
    print("| traced | shares/s | CPU per share, us | added, us | round trip, ms | rejected |")
    print("|---|---|---|---|---|---|")
    base = statistics.median(r["cpu_us"] for r in rows["untraced"])
    for name, got in rows.items():
        middle = {k: statistics.median(r[k] for r in got) for k in got[0]}
        print(
            f"| {name} | {middle['per_s']:.0f} | {middle['cpu_us']:.0f} | "
            f"{middle['cpu_us'] - base:+.0f} | {middle['trip_ms']:.2f} | {middle['rejected']:.0f} |"
        )


if __name__ == "__main__":
    main()
