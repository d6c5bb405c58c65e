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
import time

import paths
from common import Target, program_ns, run_parts, table
from loaded import RATE, Role
from watchers import Heaptrack, HeaptrackInjected, Memleak, MemleakFloor, Roletrace, Watcher, cpu_s

PAIR_ROUNDS, ROLE_ROUNDS = (int(os.environ.get("ROUNDS", n)) for n in (5, 3))
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


def shown(title, head, rows):
    """A table without the columns in which nothing is said."""
    used = [i for i in range(len(head)) if i == 0 or any(r[i] for r in rows)]
    table(title, [head[i] for i in used], [[r[i] for i in used] for r in rows])


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
    inside = [min(program_ns(pid, lambda: target.ask("malloc", PAIRS)) for _ in range(8)) / PAIRS
              for pid in watcher.programs]
    target.ask("keep", KEPT)
    watcher.detach()
    watcher.ended(target.end())
    return {"ns": ns, "programs": sum(inside), "blocks": watcher.blocks, "notes": watcher.notes}


def in_turns(rounds, subjects, measure):
    got = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, make in subjects.items():
            got[name].append(measure(make))
    return got


def proof(rows, kept, within):
    """What the tool said of the blocks that are kept; None: wrong, or nothing."""
    worst = max(rows, key=lambda r: abs((r["blocks"] or 0) - kept))["blocks"]
    return worst if worst is not None and abs(worst - kept) <= within else None


def above_floor(got, key):
    """Medians; a subject and its floor are measured one after the other."""
    return {name: statistics.median(r[key] - f[key] for r, f in zip(rows, got[name + ", floor"]))
            for name, rows in got.items() if name + ", floor" in got}


def ratio(figures, name):
    return f"{figures[name] / figures['memleak']:.2f}" if name in figures and "memleak" in figures else ""


def pair():
    subjects = installed(PAIR)
    got = in_turns(PAIR_ROUNDS, subjects, price_pair)
    ns = {name: middle(rows, "ns") for name, rows in got.items()}
    above, inside = above_floor(got, "ns"), above_floor(got, "programs")
    # a preloaded library sees the C library's own blocks, too
    said = {name: proof(rows, KEPT, 5 if name == "heaptrack" else 0) for name, rows in got.items()}
    if "memleak" in ns and not said["memleak"]:
        print("\nmemleak did not count: no ratios")
        above.pop("memleak")
        inside.pop("memleak")
    rows = []
    for name in (n for n in subjects if not n.endswith("floor")):
        rows.append([name, f"{ns[name]:.0f}", f"{ns[name + ', floor']:.0f}" if name in above else "",
                     f"{above[name]:.0f}" if name in above else "", ratio(above, name),
                     f"{inside[name]:.0f}" if name in inside else "", ratio(inside, name),
                     f"{said[name]} of {KEPT}" if said[name] else "-",
                     "; ".join({r["notes"] for r in got[name] if r["notes"]})])
    shown(f"One malloc and free of 64 bytes, ns (medians of {PAIR_ROUNDS} attachments, each the least of 8 × {PAIRS} pairs)",
          ["", "traced", "floor", "above the floor", "÷ memleak's", "of it in the programs", "÷ memleak's",
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
    role.load(0, 0.3)
    loading = role.begin(RATE, 2.5)
    time.sleep(0.5)
    before = role.held()
    watcher.attach(role.pid)
    stall = json.loads(loading.communicate()[0])
    turns = compare(role, twin, watcher.pids)
    held = role.held()
    watcher.detach()
    watcher.ended(role.end())
    got = {f"{who} {key} {how}": mean(turns, who, rate, key) for who in ("twin", "role")
           for how, rate in (("paced", RATE), ("flat", 0)) for key in ("cpu_us", "p50_us", "p99_us", "per_s")}
    truth = held - before if watcher.net else held
    return {**got, "lost": 1 - got["twin cpu_us flat"] / got["role cpu_us flat"],
            "added": got["role cpu_us paced"] - got["twin cpu_us paced"],
            "helpers": statistics.mean(t["helpers"] for t in turns), "stall": stall["max_us"] / 1e3,
            "said": f"{watcher.blocks} of {truth}" if watcher.blocks is not None else "-",
            "notes": watcher.notes}


def beside(runs, key):
    return f"{middle(runs, f'role {key} paced') / 1e3:.2f} ({middle(runs, f'twin {key} paced') / 1e3:.2f})"


def role():
    subjects = installed(ROLE)
    twin = Role()
    twin.load(0, 1)
    got = in_turns(ROLE_ROUNDS, subjects, lambda make: measure_role(make, twin))
    twin.end()
    rows = []
    for name, runs in got.items():
        rows.append([name, f"{100 * middle(runs, 'lost'):.1f} %", f"{middle(runs, 'added'):+.0f}",
                     f"{middle(runs, 'role per_s paced'):.0f}", beside(runs, "p50_us"), beside(runs, "p99_us"),
                     f"{100 * middle(runs, 'helpers'):.0f} %",
                     f"{middle(runs, 'stall'):.0f}", runs[0]["said"], "; ".join({r["notes"] for r in runs if r["notes"]})])
    every = [r for runs in got.values() for r in runs]
    base, flat = middle(every, "twin cpu_us paced"), middle(every, "twin per_s flat")
    answered = middle(every, "twin per_s paced")
    if answered < 0.98 * RATE:
        print(f"\nThe machine was busy (the untraced twin answered {answered:.0f} of {RATE}/s): CPU figures hold, "
              "latencies do not.")
    shown(f"A role on one CPU, {base:.0f} us of work for a request of some 100 allocations, untraced {flat:.0f} "
          f"requests/s flat out (medians of {ROLE_ROUNDS} rounds, against an untraced twin in turns)",
          ["", "throughput lost, flat out", f"CPU per request at {RATE}/s, us", f"answered of {RATE}/s", "p50, ms (twin)",
           "p99, ms (twin)", "the tool's own CPU", "longest answer while attaching, ms", "blocks said to be live",
           "notes"], rows)


PARTS = {"pair": pair, "role": role, "paths": paths.paths}


if __name__ == "__main__":
    run_parts(PARTS)
