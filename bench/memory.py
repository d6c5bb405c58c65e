#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What watching memory costs, beside memleak and heaptrack, as Markdown tables.

usage: memory.py BUILD_DIR [pair|role|paths]...      ROUNDS=N: attachments of each

Each subject gets a fresh target, in turns, and must show that it was counting: the target keeps some
blocks, and the tool has to say how many. A price without that proof is not shown.

Floors: roletrace's is its own programs leaving at their gate, on its own probes (uprobe_multi; free
behind its single-stepped first instruction). memleak's is empty programs on memleak's probes (single
ones, at the entry and the return of malloc and at free's first instruction): floor.c.
"""
import json
import os
import statistics
import subprocess
import sys
import time

import paths
from common import Target, machine, table
from loaded import RATE, Role
from watchers import Heaptrack, HeaptrackInjected, Memleak, MemleakFloor, Roletrace, Watcher, cpu_s

ROUNDS = int(os.environ.get("ROUNDS", 5))
PAIRS = 5000
KEPT = 777


def ours(memory, *args):
    return lambda: Roletrace("--memory", memory, *args)


def installed(subjects):
    """Peers that are not there are said and left out; subjects: {name: class or what makes one}."""
    found = {}
    for name, make in subjects.items():
        missing = make.missing() if isinstance(make, type) else ""
        if missing:
            print(f"\n{name}: left out, not installed: {missing} (bench/peers.sh DIR; PEERS=DIR)")
        else:
            found[name] = make
    return found


def middle(rows, key):
    return statistics.median(r[key] for r in rows)


# a pair of malloc and free

ALONE = ("-f", "bench_lone", "--budget", "off")  # one function, that is never called

PAIR = {
    "untraced": Watcher,
    "growth": ours("growth", *ALONE),
    "live, floor": ours("live", "--empty-programs", *ALONE),
    "live": ours("live", *ALONE),
    "stacks, floor": ours("stacks", "--empty-programs", *ALONE),
    "stacks": ours("stacks", *ALONE),
    "memleak, floor": MemleakFloor,
    "memleak": Memleak,
    "heaptrack": Heaptrack,
    "heaptrack -p": HeaptrackInjected,
}


def price_pair(make):
    """The least of some loops: what disturbs one only ever adds."""
    watcher = make()
    target = Target(watcher.command)
    target.ask("malloc", 1000000 if make is Watcher else 1)
    watcher.attach(target.pid)
    time.sleep(0.3)
    target.ask("malloc", 4 * PAIRS)
    ns = min(target.ask("malloc", PAIRS) for _ in range(8))
    target.ask("keep", KEPT)
    watcher.detach()
    watcher.ended(target.end())
    return {"ns": ns, "blocks": watcher.blocks, "notes": watcher.notes}


def in_turns(subjects, measure):
    got = {name: [] for name in subjects}
    for _ in range(ROUNDS):
        for name, make in subjects.items():
            got[name].append(measure(make))
    return got


def proof(rows, kept, within):
    """What the tool said of the blocks that are kept; None: wrong, or nothing."""
    worst = max(rows, key=lambda r: abs((r["blocks"] or 0) - kept))["blocks"]
    return worst if worst is not None and abs(worst - kept) <= within else None


def pair():
    subjects = installed(PAIR)
    got = in_turns(subjects, price_pair)
    ns = {name: middle(rows, "ns") for name, rows in got.items()}
    above = {name: ns[name] - ns[name + ", floor"] for name in ns if name + ", floor" in ns}
    # a preloaded library sees the C library's own blocks, too
    said = {name: proof(rows, KEPT, 5 if name == "heaptrack" else 0) for name, rows in got.items()}
    if "memleak" in ns and not said["memleak"]:
        print("\nmemleak did not count: no ratios")
        above.pop("memleak")
    rows = []
    for name in (n for n in subjects if not n.endswith("floor")):
        row = [name, f"{ns[name]:.0f}"]
        row += [f"{ns[name + ', floor']:.0f}" if name + ", floor" in ns else ""]
        row += [f"{above[name]:.0f}" if name in above else ""]
        row += [f"{above[name] / above['memleak']:.2f}" if name in above and "memleak" in above else ""]
        row += [f"{ns[name] / ns['memleak']:.2f}" if "memleak" in above else ""]
        row += [f"{said[name]} of {KEPT}" if said[name] else "-"]
        row += ["; ".join({r["notes"] for r in got[name] if r["notes"]})]
        rows.append(row)
    table(f"One malloc and free of 64 bytes, ns (medians of {ROUNDS} attachments, each the least of 8 × {PAIRS} pairs)",
          ["", "traced", "floor", "above the floor", "above the floor ÷ memleak's", "in all ÷ memleak's",
           "blocks said to be kept", "notes"], rows)


# a role of fixed work per request

EXACT = ("--budget", "off")

ROLE = {
    "untraced": Watcher,
    "off": ours("off", *EXACT),
    "growth": ours("growth", *EXACT),
    "live": ours("live", *EXACT),
    "stacks": ours("stacks", *EXACT),
    "stacks, default budget": ours("stacks"),
    "memleak": Memleak,
    "heaptrack": Heaptrack,
    "heaptrack -p": HeaptrackInjected,
}


def compare(role, twin, pids):
    """The role against its twin, in turns of half a second."""
    turns = []
    for _ in range(2):
        for rate, seconds in ((RATE, 0.5), (0, 0.5)):
            own, began = cpu_s(pids), time.monotonic()
            turns.append({"rate": rate, "twin": twin.load(rate, seconds), "role": role.load(rate, seconds)})
            turns[-1]["helpers"] = (cpu_s(pids) - own) / (time.monotonic() - began) * 2  # half is the twin's
    return turns


def mean(turns, who, rate, key):
    return statistics.mean(t[who][key] for t in turns if t["rate"] == rate)


def measure_role(make, twin):
    watcher = make()
    role = Role(watcher.command)
    loading = role.begin(RATE, 2)
    time.sleep(0.5)
    watcher.attach(role.pid)
    stall = json.loads(loading.communicate()[0])
    turns = compare(role, twin, watcher.pids)
    held = role.held()
    watcher.detach()
    watcher.ended(role.end())
    got = {key: [mean(turns, who, RATE, key) for who in ("twin", "role")]
           for key in ("cpu_us", "p50_us", "p99_us", "per_s")}
    flat = [mean(turns, who, 0, "per_s") for who in ("twin", "role")]
    return {"kept": flat[1] / flat[0], "cpu": got["cpu_us"][1] - got["cpu_us"][0], "twin_cpu": got["cpu_us"][0],
            "p50": got["p50_us"][1] / 1e3, "p99": got["p99_us"][1] / 1e3, "per_s": got["per_s"][1],
            "helpers": statistics.mean(t["helpers"] for t in turns), "stall": stall["max_us"] / 1e3,
            "blocks": watcher.blocks, "held": held, "notes": watcher.notes}


def role():
    subjects = installed(ROLE)
    twin = Role()
    twin.load(RATE, 1)
    got = in_turns(subjects, lambda make: measure_role(make, twin))
    twin.end()
    rows = []
    for name, runs in got.items():
        said = [r["blocks"] for r in runs if r["blocks"] is not None]
        rows.append([name, f"{100 * (1 - middle(runs, 'kept')):.1f} %", f"{middle(runs, 'cpu'):+.0f}",
                     f"{middle(runs, 'per_s'):.0f}", f"{middle(runs, 'p50'):.2f}", f"{middle(runs, 'p99'):.1f}",
                     f"{100 * middle(runs, 'helpers'):.0f} %", f"{middle(runs, 'stall'):.0f}",
                     f"{min(said)}-{max(said)} of {runs[0]['held']}" if said else "-",
                     "; ".join({r["notes"] for r in runs if r["notes"]})])
    base = statistics.median(r["twin_cpu"] for runs in got.values() for r in runs)
    table(f"A role on one CPU, {base:.0f} us of work per request of some 100 allocations "
          f"(medians of {ROUNDS} rounds, against an untraced twin in turns)",
          ["", "throughput lost, flat out", f"CPU per request at {RATE}/s, us", f"answered of {RATE}/s", "p50, ms",
           "p99, ms", "the tool's own CPU", "longest answer while attaching, ms", "blocks said to be live",
           "notes"], rows)


PARTS = {"pair": pair, "role": role, "paths": paths.paths}


def main():
    if os.geteuid():
        sys.exit("bench: needs root")
    names = sys.argv[2:] or list(PARTS)
    for n in names:
        if n not in PARTS:
            sys.exit(f"bench: no part '{n}': {', '.join(PARTS)}")
    print(machine())
    for n in names:
        PARTS[n]()


if __name__ == "__main__":
    main()
