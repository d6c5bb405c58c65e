# SPDX-License-Identifier: BSD-2-Clause
"""--memory: live bytes and blocks against the fixture's own account (malloc_usable_size)."""

import os

import harness
from harness import Fixture, Trace, check, equal


def warm(*args, **kwargs):
    """A fixture whose threads have run once: libc keeps what it allocates for them."""
    f = Fixture("allocs", *args, **kwargs)
    f.ask("churn")
    return f, f.ask("drop")


def memory(f, base, mode, words, *args, **kwargs):
    """Traces while the fixture answers words: (memory of the snapshot, what the fixture knows)."""
    t = Trace(f, "--memory", mode, *args, **kwargs)
    for word in words:
        account = f.ask(word)
    snapshot = t.stop()
    m = snapshot.doc["memory"]
    equal(m["mode"], mode, "memory.mode")
    equal(m["reliable"], True, f"memory.reliable ({m['reason']})")
    return snapshot, m, {key: account[key] - base[key] for key in account}


def agree(m, truth):
    for key, value in truth.items():
        equal(m[key], value, f"memory.{key}")


def check_allocs(mode, threads, operations, words, **kwargs):
    f, base = warm(threads, operations)
    snapshot, m, truth = memory(f, base, mode, words, **kwargs)
    agree(m, truth)
    equal((m["source"], m["size_basis"]), ("glibc", "usable"), "whose figures")
    equal(m["unknown_frees"], 0, "frees of unknown blocks")
    snapshot.nothing_lost()
    f.finish()
    return snapshot, m


def test_a1_a2_a4_edges_live():
    check_allocs("live", 1, 100, ["edges", "churn", "edges"], functions=("traced_edges",))


def test_a1_a2_a4_edges_stacks():
    check_allocs("stacks", 1, 100, ["edges", "churn", "edges"], functions=("traced_edges",))


def test_a6_threads_live():
    check_allocs("live", 8, 10_000, ["churn", "churn"], functions=("traced_edges",))


def test_a6_threads_stacks():
    snapshot, m = check_allocs("stacks", 8, 5_000, ["churn", "churn"])
    # every block has an owner, and the owners' figures add up to the whole
    for key in ("live_bytes", "live_count", "alloc_bytes", "alloc_count"):
        equal(sum(s[key] for s in m["stacks"]), m[key], f"{key} of all stacks")
    for key in ("bytes", "count"):
        of_functions = sum(r["alloc"][key] for r in snapshot.functions)
        equal(of_functions, m[f"alloc_{key}"], f"{key} of all functions")


def test_a6_nothing_left_is_nothing():
    for mode in ("live", "stacks"):
        _, m = check_allocs(mode, 4, 2_000, ["churn", "drop"], functions=("traced_edges",))
        equal((m["live_bytes"], m["live_count"]), (0, 0), "live in the end")


def test_a5_blocks_from_before_the_attach():
    """stacks: their frees are unknown ones; live cannot tell, and says the net change."""
    for mode, unknown, live in (("stacks", 64, 0), ("live", 0, -64)):
        f, _ = warm(1, 100)
        base = f.ask("before")
        _, m, _ = memory(f, base, mode, ["late", "churn", "drop"], functions=("traced_edges",))
        equal(m["unknown_frees"], unknown, f"unknown frees in {mode}")
        equal(m["live_count"], live, f"live blocks in {mode}")
        f.finish()


def test_l6_forked_child_frees_nothing_of_its_parents():
    for mode in ("live", "stacks"):
        f, base = warm(1, 2_000)
        f.ask("churn")
        kept = f.ask("churn")
        _, m, _ = memory(f, base, mode, ["fork"], functions=("traced_edges",))
        equal(
            {k: m[k] for k in ("live_bytes", "alloc_count", "freed_count", "unknown_frees")},
            {"live_bytes": 0, "alloc_count": 0, "freed_count": 0, "unknown_frees": 0},
            f"what the child did, in {mode}",
        )
        check(kept["live_count"] > 100, "the child had nothing to free")
        f.finish()


def test_b2_more_blocks_than_the_table_holds():
    """They have no owner, that is said, and the totals stay exact."""
    f, base = warm(2, 20_000)
    snapshot, m, truth = memory(
        f, base, "stacks", ["churn"], "--max-blocks", 300, functions=("traced_edges",)
    )
    agree(m, truth)
    check(m["unowned_count"] > 0, f"no block without an owner: {m['live_count']} live")
    equal(snapshot.doc["health"]["status"], "degraded", "health")
    check(
        any("--max-blocks" in r for r in snapshot.doc["health"]["reasons"]),
        f"health: {snapshot.doc['health']}",
    )
    f.finish()


def test_e7_allocator_is_found_and_listed():
    done = harness.roletrace("list", "--exe", os.path.join(harness.CARGO_BIN, "demo_role"))
    check("rust in demo_role, traced: " in done.stdout, f"list says: {done.stdout[-500:]}")
    f = Fixture("allocs")
    done = harness.roletrace("list", "--pid", f.pid, "--memory", "stacks")
    check("glibc in libc.so.6, traced: " in done.stdout, f"list says: {done.stdout[-500:]}")
    equal(f.breakpoints(), [], "breakpoints by list")
    f.finish()


def test_memory_over_budget_lets_go():
    """A hot allocator is not slowed for longer than a second, and the file says so."""
    f, _ = warm(2, 2_000_000)
    t = Trace(f, "--memory", "live", functions=("traced_edges",), budget="2")
    f.ask("churn")
    snapshot = t.stop()
    m = snapshot.doc["memory"]
    equal(m["reliable"], False, "memory.reliable")
    check("over budget" in m["reason"], f"memory.reason: {m['reason']}")
    equal(snapshot.doc["health"]["status"], "degraded", "health")
    f.finish()


def test_growth_by_default():
    """What touches memory first is seen without any probe on an allocator."""
    f, _ = warm(1, 100)
    t = Trace(f, functions=("traced_large",))
    f.ask("churn")
    snapshot = t.stop()
    m = snapshot.doc["memory"]
    equal((m["mode"], m["source"], m["reliable"]), ("growth", None, True), "memory")
    check(m["rss_bytes"] > 1_000_000, f"rss {m['rss_bytes']}")
    check(0 < m["pss_bytes"] <= m["rss_bytes"], f"pss {m['pss_bytes']}")
    with open(f"/proc/{f.pid}/statm") as statm:
        rss = int(statm.read().split()[1]) * 4096
    # the kernel's own counters are that coarse
    check(abs(rss - m["rss_bytes"]) < 1_000_000, f"rss {m['rss_bytes']}, by statm {rss}")
    f.finish()


def test_memory_off():
    f = Fixture("calls")
    t = Trace(f, "--memory", "off")
    f.go()
    check("memory" not in t.stop().doc, "memory in the file")
    f.finish()
