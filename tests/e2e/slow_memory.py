# SPDX-License-Identifier: BSD-2-Clause
"""Memory, what takes a minute to build or to run: part of check-roles."""

import os
import time

import harness
from harness import Fixture, Trace, check, close, equal
from test_memory import agree, dies


def role(kind, mode, *args):
    """A8: the allocator that is linked in is found by its own names, and is exact."""
    exe = os.path.join(harness.CARGO_BIN, f"role_{kind}")
    f = Fixture("allocs", 4, 5_000, exe=exe)
    f.ask("churn")
    base = f.ask("drop")
    t = Trace(f, "--memory", mode, *args, functions=("*::allocs::*",))
    account = f.ask("churn")
    m = t.stop().doc["memory"]
    equal(m["reliable"], True, f"memory.reliable ({m['reason']})")
    rows = {a["source"]: a for a in m["allocators"]}
    agree(rows[kind], {key: account[key] - base[key] for key in ("live_bytes", "live_count", "alloc_count")})
    equal(rows[kind]["size_basis"], "requested", "what a byte is")
    # layers are never added up; what libc takes for itself (threads) is libc's
    check(rows["glibc"]["alloc_count"] < 100, f"libc: {rows['glibc']['alloc_count']} blocks")
    check(not rows["rust"]["traced"] and rows["rust"]["reason"], f"the shims: {rows['rust']}")
    equal(sum(a["live_count"] for a in m["allocators"] if a["in_totals"]), m["live_count"], "totals")
    if mode == "stacks":
        check(any(s["frames"][-1].endswith("traced_vector") for s in m["stacks"]), "no stack of its own")
    f.finish()
    return rows


def test_a8_jemalloc_linked_in():
    for mode in ("live", "stacks"):
        rows = role("jemalloc", mode)
    # aligned layouts go another way than the others, and back
    for name in ("_rjem_malloc", "_rjem_mallocx", "_rjem_sdallocx", "_rjem_rallocx"):
        check(name in listed("jemalloc"), f"{name} is not listed")
    equal(rows["jemalloc"]["object"], "role_jemalloc", "where it is")


def test_a8_mimalloc_linked_in():
    for mode in ("live", "stacks"):
        role("mimalloc", mode)
    check("mi_malloc_aligned" in listed("mimalloc"), listed("mimalloc"))


def listed(kind):
    return harness.roletrace("list", "--exe", os.path.join(harness.CARGO_BIN, f"role_{kind}")).stdout


def test_slow_leak_under_much_churn():
    """1 KB/s among 10 MB/s that are given back, and a sawtooth whose teeth get old: found within 60 s
    with the default --leak-after, and nothing else is."""
    f = Fixture("allocs", 1, 10, exe=os.path.join(harness.FIXTURES, "rust-allocs-plain"))
    f.ask("churn")
    f.ask("drop")
    start = time.monotonic()
    t = Trace(f, "--memory", "stacks", "-i", 2, functions=("allocs::traced_*",))
    f.say("much 56")
    found, seen = None, set()
    while time.monotonic() - start < 58 and t.process.poll() is None:
        time.sleep(2)
        growing = verdicts(t)
        seen |= set(growing)
        if "allocs::traced_leak" in growing and not found:
            found = time.monotonic() - start
    account = f.ask("")
    m = t.stop().doc["memory"]
    print(f"      the leak was found after {found or 0:.0f} s; {m['alloc_bytes'] / 56e6:.1f} MB/s of churn", flush=True)
    check(found and found < 60, f"not found; once called growing: {seen}")
    equal(seen, {"allocs::traced_leak"}, "ever called growing")
    leak = next(s for s in m["stacks"] if s["frames"][-1] == "allocs::traced_leak")
    close(leak["old_bytes_per_s"], 1024, 0.25, "bytes per second")
    check(m["alloc_bytes"] / 56 > 8e6, f"{m['alloc_bytes']} bytes of churn")
    check(account["live_count"] > 400, f"{account}")
    f.finish()


test_slow_leak_under_much_churn.seconds = 150


def verdicts(t):
    if not os.path.exists(t.file):
        return []
    m = t.snapshot().doc["memory"]
    return [s["frames"][-1] for s in m["stacks"] if s["verdict"] == "growing"]


def test_b1_200_000_threads_die_in_the_allocator():
    dies(200_000)


test_b1_200_000_threads_die_in_the_allocator.seconds = 600
