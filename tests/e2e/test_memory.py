# SPDX-License-Identifier: BSD-2-Clause
"""--memory: live bytes and blocks against the fixture's own account (malloc_usable_size)."""

import csv
import json
import os
import re
import subprocess
import time

import harness
from exposition import Page, promtool_check
from harness import Fixture, Trace, check, close, equal


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


def check_of(f, *args):
    done = harness.roletrace("check", "--pid", f.pid, *args)
    equal((done.returncode, done.stderr), (0, ""), "check --pid")
    equal(f.breakpoints(), [], "breakpoints by check")
    f.finish()
    return done.stdout


def test_check_says_which_allocators_a_process_has():
    said = check_of(Fixture("allocs"))
    check(re.search(r"allocators, with --memory live:\n  glibc in libc.so.6, traced: .*malloc", said), said)
    # half a family is not believed, and the reason stands there
    lto = os.path.join(harness.FIXTURES, "rust-allocs-lto")
    said = check_of(Fixture("allocs", 1, 1, exe=lto))
    check(re.search(r"rust in rust-allocs-lto, incomplete: __rust_dealloc has no symbol", said), said)
    check("glibc in libc.so.6, traced" in said, said)
    said = check_of(Fixture("allocs", 1, 1, exe=lto), "--memory", "stacks", "--allocator", "rust")
    check("none can be traced: " in said, said)
    done = harness.roletrace("check", "--pid", "4194303")
    equal(done.returncode, 3, f"exit code: {done.stderr}")


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


def preloaded(library, source, exact_bytes=True):
    """Another allocator before libc's: each has its own figures, and libc's is not asked."""
    path = f"/usr/lib/x86_64-linux-gnu/{library}"
    if not os.path.exists(path):
        raise harness.Skip(f"no {path}")
    for mode in ("live", "stacks"):
        f, base = warm(4, 5_000, command=("env", f"LD_PRELOAD={path}"))
        _, m, truth = memory(f, base, mode, ["churn", "churn"], functions=("traced_edges",))
        if not exact_bytes:
            usable = truth.pop("live_bytes")
            check(usable / 2 < m["live_bytes"] <= usable, f"live {m['live_bytes']} of {usable}")
        agree(m, truth)
        rows = {a["source"]: a for a in m["allocators"]}
        equal(sorted(a["source"] for a in m["allocators"]), sorted(["glibc", source]), "allocators found")
        equal(m["unknown_frees"], 0, f"frees of unknown blocks, {mode}")
        equal(rows[source]["size_basis"], "requested", "what a byte is")
        equal(rows[source]["live_count"], truth["live_count"], f"blocks of {source}")
        equal(rows["glibc"]["alloc_count"], 0, "blocks of libc")
        equal((m["source"], m["size_basis"]), (source, "requested"), "whose figures")
        f.finish()


def test_a8_jemalloc():
    preloaded("libjemalloc.so.2", "jemalloc")


def test_a8_mimalloc():
    # large blocks are larger than it says they would be: requested is less than usable
    preloaded("libmimalloc.so.2", "mimalloc", exact_bytes=False)


def rust(kind, *args):
    f = Fixture("allocs", *args, exe=os.path.join(harness.FIXTURES, f"rust-allocs-{kind}"))
    f.ask("churn")
    return f, f.ask("drop")


def check_rust(kind, mode, source, basis, keys, *args):
    f, base = rust(kind, 4, 3_000)
    _, m, truth = memory(f, base, mode, ["churn"], *args, functions=("allocs::*",))
    agree(m, {key: truth[key] for key in keys})
    equal((m["source"], m["size_basis"]), (source, basis), "whose figures")
    f.finish()
    return m


def test_a7_rust_shims_tell_all():
    """Entries alone, and the requested sizes: no exit, no table."""
    m = check_rust("plain", "live", "rust", "requested", ("live_bytes", "live_count"))
    equal([a["source"] for a in m["allocators"] if a["traced"]], ["rust"], "layers traced")


def test_a7_two_layers_are_not_added():
    m = check_rust("plain", "live", "glibc", "usable", ("live_count",), "--allocator", "all")
    rows = {a["source"]: a for a in m["allocators"]}
    equal(rows["rust"]["live_count"], rows["glibc"]["live_count"], "the same blocks twice")
    check(rows["rust"]["live_bytes"] < rows["glibc"]["live_bytes"], "usable is more than requested")


def test_a7_stacks_of_rust():
    m = check_rust("plain", "stacks", "glibc", "usable", ("live_count",))
    top = m["stacks"][0]
    check(top["frames"][-1] == "allocs::traced_vector", f"top stack: {top}")


def test_a9_inlined_shims_are_not_believed():
    for kind in ("lto", "counting"):
        m = check_rust(kind, "live", "glibc", "usable", ("live_count",))
        rows = {a["source"]: a for a in m["allocators"]}
        check("rust" in rows and not rows["rust"]["traced"], f"{kind}: {m['allocators']}")
        check(rows["rust"]["reason"], "no reason why not")


def test_e7_names_from_before_rust_1_87():
    """__rust_alloc without a mangling: the same program, its symbols renamed."""
    new = os.path.join(harness.FIXTURES, "rust-allocs-plain")
    old = os.path.join(harness.scratch(), "allocs")
    names = re.findall(
        r" (_RNvC\w+7___rustc\d+_(__(?:rust|rdl|rg)_\w+))", subprocess.check_output(["nm", new], text=True)
    )
    check(len(names) >= 8, f"shims in the file: {names}")
    subprocess.check_call(
        ["objcopy", *(f"--redefine-sym={mangled}={plain}" for mangled, plain in names), new, old]
    )
    f = Fixture("allocs", 2, 1_000, exe=old)
    f.ask("churn")
    base = f.ask("drop")
    _, m, truth = memory(f, base, "live", ["churn"], functions=("allocs::*",))
    equal(m["source"], "rust", "whose figures")
    agree(m, {key: truth[key] for key in ("live_bytes", "live_count")})
    f.finish()


def dies(threads, mode="stacks"):
    """Threads that end, or leap out, in the midst of the allocator; then calls that count."""
    f = Fixture("dies_in_malloc", threads)
    t = Trace(f, "--memory", mode, "--allocator", "malloc")
    f.say("die")
    f.line(500)
    for _ in range(2):
        truth = f.ask("after")
    snapshot = t.stop()
    m = snapshot.doc["memory"]
    rows = {a["source"]: a for a in m["allocators"]}
    for key, value in truth.items():
        equal(rows["jemalloc"][key], value, f"{key} of {threads} threads, {mode}")
    equal(rows["jemalloc"]["failed"], 0, "failed")
    equal((m["unowned_count"], rows["jemalloc"]["unknown_frees"]), (0, 0), "unowned, unknown")
    snapshot.nothing_lost()
    f.finish()


def test_b1_threads_that_die_in_the_allocator():
    dies(3_000)
    dies(3_000, "live")


def test_s4_what_a_connection_leaves_behind():
    """By site, and one block a cycle: the slope, not the total."""
    f, base = rust("plain", 1, 10)
    t = Trace(f, "--memory", "stacks", "--leak-after", 1, functions=("allocs::traced_*",))
    account = f.ask("cycles 6")
    m = t.stop().doc["memory"]
    f.finish()
    growing = [s for s in m["stacks"] if s["verdict"] == "growing"]
    equal([s["frames"] for s in growing], [["allocs::traced_connect", "allocs::traced_leak"]], "what grows")
    cycles = account["live_count"] - base["live_count"]
    check(cycles > 100, f"{cycles} cycles")
    # and the list of them
    check(abs(growing[0]["live_count"] - cycles) <= 1, f"{growing[0]} after {cycles} cycles")
    close(growing[0]["old_bytes_per_s"], cycles * 100 / 6, 0.35, "bytes per second")
    steady = {s["frames"][-1] for s in m["stacks"]} - {"allocs::traced_leak"}
    check("allocs::traced_connect" in steady, f"others: {steady}")


def test_a8_musl():
    """Static, with musl's malloc below Rust's."""
    if not os.path.exists(os.path.join(harness.FIXTURES, "rust-allocs-musl")):
        raise harness.Skip("no rustup target x86_64-unknown-linux-musl")
    check_rust("musl", "live", "rust", "requested", ("live_bytes", "live_count"))
    for mode, args in (("live", ("--allocator", "malloc")), ("stacks", ())):
        m = check_rust("musl", mode, "musl", "requested", ("live_bytes", "live_count"), *args)
        equal([a["source"] for a in m["allocators"] if a["traced"]], ["musl"], "layers traced")


def served(mode, seconds, *args):
    """What the leak verdicts say of two kinds of work, after some seconds: by function."""
    f, base = rust("plain", 1, 10)
    t = Trace(f, "--memory", "stacks", *args, functions=("allocs::traced_*",))
    f.ask(f"{mode} {seconds}")
    m = t.stop().doc["memory"]
    f.finish()
    return {s["frames"][-1]: s for s in m["stacks"]}


def test_leak_is_found_under_churn():
    """10 KB/s among some 3 MB/s that are given back: it alone is called growing."""
    stacks = served("leak", 9, "--leak-after", 1.5)
    growing = [name for name, s in stacks.items() if s["verdict"] == "growing"]
    equal(growing, ["allocs::traced_leak"], f"what grows, of {list(stacks)}")
    leak = stacks["allocs::traced_leak"]
    rate = leak["live_bytes"] / 9
    close(leak["slope_bytes_per_s"], rate, 0.25, "growth per second")
    check(leak["slope_error"] < leak["slope_bytes_per_s"] / 2, f"error {leak['slope_error']}")
    close(leak["old_bytes_per_s"], rate, 0.25, "what stays, per second")
    check(leak["oldest_ns"] > 8e9, f"age of the oldest: {leak['oldest_ns']}")
    equal(stacks["allocs::traced_vector"]["verdict"], "steady", "verdict on the churn")


def test_sawtooth_is_no_leak():
    stacks = served("sawtooth", 7, "--leak-after", 1)
    equal(stacks["allocs::traced_sawtooth"]["verdict"], "steady", f"{stacks}")
    equal([s for s in stacks.values() if s["verdict"] == "growing"], [], "what grows")


def test_too_short_a_look_says_nothing():
    stacks = served("leak", 1)
    equal({s["verdict"] for s in stacks.values()}, {None}, "verdicts")


def test_memory_in_all_formats():
    f, base = warm(2, 2_000)
    path = os.path.join(harness.scratch(), "out")
    t = Trace(f, "--memory", "stacks", "-o", f"{path}.prom", "-o", f"{path}.csv")
    account = f.ask("churn")
    snapshot = t.stop()
    live = account["live_bytes"] - base["live_bytes"]
    with open(f"{path}.prom") as page:
        page = Page(page.read())
    equal(page.value("roletrace_memory_live_bytes", allocator="glibc"), str(live), "in .prom")
    equal(page.value("roletrace_memory_reliable"), "1", "reliable in .prom")
    owned = sum(int(v) for v in page.values("roletrace_function_allocated_bytes_total").values())
    equal(owned, snapshot.doc["memory"]["alloc_bytes"], "allocated by functions in .prom")
    with open(f"{path}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    equal(sum(int(row["live_bytes"]) for row in rows), live, "live bytes in .csv")
    # what is read back is what was written, and the report is the same
    again = harness.roletrace("report", t.file, "-o", "json:-")
    with open(t.file) as file:
        equal(again.stdout, file.read(), "the file read and written again")
    saved = harness.roletrace("report", t.file)
    equal(saved.stdout.splitlines(), t.stdout, "the report of the file")
    check(any(line.startswith("Live: ") for line in t.stdout), f"the report: {t.stdout}")
    promtool_check(f"{path}.prom")
    f.finish()


def test_paths_add_up():
    """Each returned call is in one path, with the time it is in the function's row with."""
    f = Fixture("nested")
    snapshot, _ = harness.trace(f)
    paths = snapshot.doc["paths"]
    equal(len({tuple(p["frames"]) for p in paths}), len(paths), "paths that are there twice")
    for row in snapshot.functions:
        mine = [p for p in paths if p["frames"][-1] == row["name"]]
        equal(sum(p["calls"] for p in mine), row["returned"], f"calls in paths to {row['name']}")
        for key in ("sum_ns", "self_ns"):
            equal(sum(p[key] for p in mine), row[key], f"{key} in paths to {row['name']}")
    for edge in snapshot.doc["edges"]:
        ends = [edge["caller"], edge["callee"]]
        calls = sum(p["calls"] for p in paths if p["frames"][-2:] == ends)
        equal(calls, edge["calls"], f"calls from {ends[0]} to {ends[1]}")
    f.finish()


def test_memory_on_older_kernels():
    """What cannot be traced there is said; the process itself is watched all the same."""
    for lacking in ("uprobe_multi", "multi_pid", "task_storage"):
        f = Fixture("allocs")
        t = Trace(f, "--memory", "stacks", "--without", lacking, functions=("traced_edges",))
        f.ask("edges")
        m = t.stop().doc["memory"]
        equal((m["reliable"], m["source"]), (False, None), f"memory without {lacking}")
        check("6.6" in m["reason"], f"reason without {lacking}: {m['reason']}")
        check(m["rss_bytes"] > 0, f"rss without {lacking}")
        f.finish()


def test_memory_from_the_first_instruction():
    """libc is not mapped yet when the probes are set."""
    file = os.path.join(harness.scratch(), "x.json")
    exe = os.path.join(harness.FIXTURES, "rust-allocs-plain")
    done = harness.roletrace(
        *("--memory", "stacks", "--budget", "off", "-o", f"json:{file}", "--", exe, 2, 500),
        input="churn\ndrop\n",
    )
    equal(done.returncode, 0, f"exit code: {done.stderr}")
    with open(file) as text:
        m = json.load(text)["memory"]
    equal((m["source"], m["reliable"]), ("glibc", True), "memory")
    check(m["alloc_count"] > 1000, f"allocations seen: {m['alloc_count']}")
    equal(m["unknown_frees"], 0, "frees of blocks from before the first instruction")


def test_memory_history_is_as_far_apart_as_it_says():
    """Slopes are by those distances."""
    for mode in ("growth", "stacks"):
        f, _ = warm(1, 100)
        t = Trace(f, "--memory", mode)
        time.sleep(5)
        doc = t.stop().doc
        history = doc["memory"]["history"]
        samples, interval = len(history["rss_bytes"]), history["interval_ns"] / 1e9
        took = doc["window"]["duration_ns"] / 1e9
        # one at the start, then one each interval
        check(
            0 <= took - (samples - 1) * interval < 2 * interval,
            f"{mode}: {samples} samples, {interval} s apart, in {took:.2f} s",
        )
        f.finish()
