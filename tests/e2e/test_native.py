# SPDX-License-Identifier: BSD-2-Clause
"""--memory stacks: native stacks of blocks, and --sample-bytes: 48 stacks of which the fixture knows
what is live of each. A6, A8, B2, B3."""

import csv
import os
import subprocess

import harness
from exposition import Page
from harness import Fixture, Trace, check, equal
from profiles import Profile, folded

KEYS = ("live_bytes", "live_count", "alloc_bytes", "alloc_count")
LEAVES = ("traced_leaf_*", "traced_branch_*", "traced_work")


def names_of(snapshot, row):
    frames = snapshot.doc["profiles"]["frames"]
    return [frames[i]["name"] for i in row["frames"]]


def inner(names):
    """What the fixture calls a stack: its last branch and leaf."""
    ours = [n for n in names if n.startswith(("traced_branch_", "traced_leaf_"))]
    return ";".join(ours) if len(ours) == 2 else None


def by_stack(snapshot):
    """The native rows of the fixture's stacks, by its names."""
    rows = {}
    for row in snapshot.doc["memory"]["native"]:
        names = names_of(snapshot, row)
        key = inner(names)
        if key:
            check(key not in rows, f"{key} twice: {names}")
            equal(names[-3:], ["traced_work", *key.split(";")], "the innermost frames")
            rows[key] = row
    return rows


def run(*args, words=("make",), fixture=(4, 6000), functions=("traced_work",), **kwargs):
    """(snapshot, memory, what the fixture says of each stack)"""
    f = Fixture("blocks", *fixture, **kwargs)
    t = Trace(f, "--memory", "stacks", *args, functions=functions)
    for word in words:
        account = f.ask(word)
    snapshot = t.stop()
    f.finish()
    m = snapshot.doc["memory"]
    equal((m["mode"], m["reliable"]), ("stacks", True), f"memory ({m['reason']})")
    snapshot.stdout = t.stdout
    snapshot.file = t.file
    return snapshot, m, account


def exact(rows, account, keys=KEYS):
    for name, truth in account.items():
        row = rows.get(name, dict.fromkeys(KEYS, 0))
        equal({k: row[k] for k in keys}, {k: truth[k] for k in keys}, f"blocks of {name}")


def each_block(*args, **kwargs):
    snapshot, m, account = run("--sample-bytes", 1, *args, **kwargs)
    rows = by_stack(snapshot)
    equal(len(rows), 48, "stacks")
    exact(rows, account)
    snapshot.nothing_lost()
    for row in rows.values():
        check("truncated" not in row, f"not followed to its root: {row}")
        equal(row["live_error_bytes"], 0, "an error of what is exact")
    for key in KEYS:
        equal(sum(r[key] for r in m["native"]), m[key], f"{key} of all native stacks")
    check("estimated" not in m and m["sampled"] is False, "marked as estimated")
    return snapshot, m


def test_native_each_block():
    each_block()


def test_native_each_block_below_traced_functions():
    """Each frame of the stacks is probed: entry sites moved into the function, exit sites."""
    snapshot, m = each_block(functions=LEAVES)
    # the traced calls of a native stack are those of its frames
    for name, row in by_stack(snapshot).items():
        equal(m["stacks"][row["stack"]]["frames"], ["traced_work", *name.split(";")], "its calls")
        for key in KEYS:
            equal(row[key], m["stacks"][row["stack"]][key], f"{key} of {name} by calls")


def test_native_each_block_below_return_probes():
    """Their return addresses are replaced by the kernel's trampoline on the stack."""
    each_block("--exit", "uretprobe", functions=LEAVES)


def test_native_without_functions():
    f = Fixture("blocks", 2, 3000)
    t = Trace(f, "--memory", "stacks", "--sample-bytes", 1, "--no-functions", functions=())
    account = f.ask("make")
    snapshot = t.stop()
    f.finish()
    exact(by_stack(snapshot), account, ("live_bytes", "live_count"))
    report = "\n".join(t.stdout)
    check("allocated in" in report and "→ traced_leaf_" in report, f"the report: {report}")


def test_native_beside_profiles():
    """Samples and waits interrupt the programs at the allocator: each unwinds in a place of its own."""
    snapshot, m = each_block("--cpu-profile=997", "--off-cpu", fixture=(8, 4000))
    for kind in ("cpu", "off_cpu"):
        profile = Profile(snapshot, kind)
        check(profile.doc["count"] > 20, f"{kind}: {profile.doc['count']} stacks")
        for stack in profile.stacks:
            check(len(profile.names(stack)) < 40, f"{kind}: {profile.names(stack)}")


def test_native_too_deep_is_marked():
    """A stack that is too deep says so and never looks like a whole one."""
    snapshot, m, _ = run("--sample-bytes", 1, words=("deep",))
    deep = [r for r in m["native"] if names_of(snapshot, r)[-1] == "traced_deep"]
    whole = [r for r in deep if "truncated" not in r]
    cut = [r for r in deep if "truncated" in r]
    equal([(r["alloc_count"], r["live_count"]) for r in whole], [(1, 0)], "the one of 6 frames")
    equal(names_of(snapshot, whole[0]).count("traced_deep"), 6, "its frames")
    equal([(r["truncated"], r["live_count"]) for r in cut], [("too_deep", 1)], "the one of 301")


def test_native_b3_no_room_for_stacks():
    """What does not fit is counted, nothing is in a wrong row, the totals are the same."""
    snapshot, m, account = run("--sample-bytes", 1, "--profile-stacks", 16)
    rows = by_stack(snapshot)
    check(0 < len(rows) <= 16, f"stacks kept: {len(rows)}")
    # a leaf allocates in two places, and perhaps only the stack of one was kept
    for name, row in rows.items():
        check(all(row[k] <= account[name][k] for k in KEYS), f"more than all in {name}: {row}")
        check(row["alloc_count"] * 2 >= account[name]["alloc_count"], f"a part of {name}: {row}")
    whole = [n for n, r in rows.items() if r["alloc_count"] == account[n]["alloc_count"]]
    exact(rows, {name: account[name] for name in whole})
    for key in KEYS:
        kept = sum(r[key] for r in m["native"])
        equal(kept + m["native_lost"][key], m[key], f"{key} of all stacks and none")
    check(snapshot.lost["memory_stacks_not_kept"] > 0, "no stack was lost")
    check(
        any("memory_stacks_not_kept" in r for r in snapshot.doc["health"]["reasons"]),
        f"health: {snapshot.doc['health']}",
    )
    live = folded(snapshot.file, "live")
    equal(sum(live.values()), m["live_bytes"], "bytes in the flamegraph")
    equal(live["[stack not kept]"], m["native_lost"]["live_bytes"], "of no stack")


# ---- estimates ----


def inside(rows, account, what, error, most=None):
    """Of the stacks, how many have the truth in their interval; of those not in the sample, as if
    the interval were that of nothing seen."""
    unseen = min(r[error] for r in rows.values())
    hits = 0
    for name, truth in account.items():
        row = rows.get(name, {what: 0, error: unseen})
        hits += abs(row[what] - truth[what]) <= row[error]
    return hits / len(account)


def of_the_whole(rows, account, what, least):
    """All together err far less than each; so a bias would show."""
    got, truth = (sum(r[what] for r in x.values()) for x in (rows, account))
    check(abs(got / truth - 1) < least, f"{what} of all: {got}, in truth {truth}")


def test_native_sample_by_default():
    """Ownership is exact, native stacks are those of a sample."""
    snapshot, m, account = run(fixture=(4, 3000, 512))
    rows = by_stack(snapshot)
    equal((m["sample_bytes"], m["sampled"]), (64 << 10, False), "the sample")
    check("estimated" not in m and m["unknown_frees"] == 0, "the totals are estimated")
    for key in KEYS:
        equal(sum(s[key] for s in m["stacks"]), m[key], f"{key} of all call paths")
    check(inside(rows, account, "live_bytes", "live_error_bytes") >= 0.9, f"{rows} {account}")
    check(inside(rows, account, "alloc_bytes", "alloc_error_bytes") >= 0.9, f"{rows} {account}")
    # some 3000 and 12000 blocks are in the sample: 2 and 1 % of the whole
    of_the_whole(rows, account, "live_bytes", 0.2)
    of_the_whole(rows, account, "alloc_bytes", 0.1)


def by_calls(m):
    return {";".join(s["frames"][1:]): s for s in m["stacks"] if len(s["frames"]) == 3}


def test_sample_bytes_of_glibc():
    """The totals are exact all the same; what is live by call path is an estimate, with its error."""
    snapshot, m, account = run(
        "--sample-bytes", "8k", fixture=(4, 6000, 8), functions=LEAVES
    )
    rows = by_calls(m)
    equal((m["sample_bytes"], m["sampled"], m["unknown_frees"]), (8192, True, None), "the sample")
    check("estimated" not in m, "the totals are estimated")
    live = sum(a["live_bytes"] for a in account.values())
    # what the threads' beginnings and ends take is not the fixture's
    check(abs(m["live_bytes"] - live) < 100_000, f"live {m['live_bytes']}, in truth {live}")
    exact(rows, account, ("alloc_bytes", "alloc_count"))
    for row in rows.values():
        equal(row["estimated"], True, f"not marked: {row}")
        check(row["live_bytes"] <= row["alloc_bytes"], f"more live than was allocated: {row}")
    check(inside(rows, account, "live_bytes", "live_error_bytes") >= 0.9, f"{rows} {account}")
    of_the_whole(rows, account, "live_bytes", 0.1)
    of_the_whole(rows, account, "live_count", 0.25)
    native = by_stack(snapshot)
    check(inside(native, account, "live_bytes", "live_error_bytes") >= 0.9, f"{native} {account}")
    check(inside(native, account, "alloc_bytes", "alloc_error_bytes") >= 0.9, f"{native}")
    for name, row in native.items():
        if row["samples"]:
            equal(names_of(snapshot, row)[-2:], m["stacks"][row["stack"]]["frames"][-2:], name)
    widths = [r["live_error_bytes"] / (r["live_bytes"] + 8192) for r in rows.values()]
    check(sorted(widths)[24] < 1.5, f"intervals that say nothing: {widths}")


def test_sample_bytes_everything_freed():
    snapshot, m, account = run("--sample-bytes", "4k", words=("make", "drop"), functions=LEAVES)
    equal({r["live_bytes"] for r in by_calls(m).values()}, {0}, "live")
    equal({r["live_bytes"] for r in by_stack(snapshot).values()}, {0}, "live of native stacks")
    check(sum(r["alloc_bytes"] for r in by_stack(snapshot).values()) > 0, "nothing in the sample")


def test_sample_bytes_of_jemalloc():
    """It does not say how large a block is that is freed: the totals are estimates too."""
    path = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
    if not os.path.exists(path):
        raise harness.Skip(f"no {path}")
    snapshot, m, account = run(
        *("--sample-bytes", "16k"),
        fixture=(4, 6000, 16),
        command=("env", f"LD_PRELOAD={path}"),
    )
    requested = next(a for a in m["allocators"] if a["source"] == "jemalloc")
    equal((m["estimated"], requested["estimated"]), (True, True), "marked as estimated")
    live = sum(a["live_bytes"] for a in account.values())
    # usable sizes are up to a quarter above what was requested
    check(0.7 * live < m["live_bytes"] < 1.1 * live, f"live {m['live_bytes']}, usable {live}")
    check(0 < m["live_error_bytes"] < live / 4, f"error {m['live_error_bytes']} of {live}")
    for key, slack in (("alloc_bytes", 0), ("freed_bytes", m["live_error_bytes"])):
        classes = sum(c[key] for c in requested["classes"])
        check(abs(classes - m[key]) <= slack, f"{key} {m[key]}, of all size classes {classes}")
    check(any(line.startswith("Live: ~") and "±" in line for line in snapshot.stdout), "report")


def test_sample_bytes_b2_table_full():
    snapshot, m, account = run("--sample-bytes", "1k", "--max-blocks", 50, functions=LEAVES)
    check(m["unowned_count"] > 0, "all blocks of the sample found room")
    check(
        any("--max-blocks" in r for r in snapshot.doc["health"]["reasons"]),
        f"health: {snapshot.doc['health']}",
    )
    exact(by_calls(m), account, ("alloc_bytes", "alloc_count"))
    live = sum(a["live_bytes"] for a in account.values())
    check(abs(m["live_bytes"] - live) < 100_000, f"live {m['live_bytes']}, in truth {live}")


def test_sample_bytes_edges():
    """realloc that fails, shrinks, frees; nothing of it is left in the table."""
    f = Fixture("allocs", 1, 100)
    f.ask("churn")
    base = f.ask("drop")
    for n in (1, 64):
        t = Trace(f, "--memory", "stacks", "--sample-bytes", n, functions=("traced_edges",))
        account = f.ask("edges")
        m = t.stop().doc["memory"]
        for key in KEYS[:2]:
            equal(m[key], account[key] - base[key], f"{key}, --sample-bytes {n}")
        equal(m["failed"], account["failed"] - base["failed"], "failures")
        base = account
    f.finish()


def test_sample_bytes_in_all_formats():
    f = Fixture("blocks", 2, 4000, 4)
    path = os.path.join(harness.scratch(), "out")
    t = Trace(
        *(f, "--memory", "stacks", "--sample-bytes", "4k"),
        *("-o", f"{path}.prom", "-o", f"{path}.csv"),
        functions=LEAVES,
    )
    f.ask("make")
    snapshot = t.stop()
    f.finish()
    alloc = {r["name"]: r["alloc"] for r in snapshot.functions}
    equal({a["estimated"] for a in alloc.values()}, {True}, "marked in functions")
    with open(f"{path}.csv", newline="") as file:
        for row in csv.DictReader(file):
            a = alloc[row["function"]]
            equal((row["live_bytes"], row["freed_bytes"]), ("", ""), "exact columns")
            equal(row["live_bytes_estimate"], str(a["live_bytes"]), "live_bytes_estimate")
            equal(row["live_bytes_error"], str(a["live_error_bytes"]), "live_bytes_error")
    with open(f"{path}.prom") as page:
        page = Page(page.read())
    equal(page.values("roletrace_function_freed_bytes_total"), {}, "freed, as if exact")
    check(page.values("roletrace_function_freed_bytes_estimate"), "no estimate of freed")
    check(page.values("roletrace_memory_unknown_frees_total") == {}, "unknown frees")
    equal(
        page.value("roletrace_memory_live_bytes", allocator="glibc"),
        str(snapshot.doc["memory"]["live_bytes"]),
        "live bytes of glibc: exact",
    )
    again = harness.roletrace("report", t.file, "-o", "json:-")
    with open(t.file) as file:
        equal(again.stdout, file.read(), "the file read and written again")
    saved = harness.roletrace("report", t.file)
    equal(saved.stdout.splitlines(), t.stdout, "the report of the file")
    check(any("one of about 4.00KB" in line for line in t.stdout), f"the report: {t.stdout}")


def test_native_flamegraphs():
    snapshot, m, account = run("--sample-bytes", 1, functions=LEAVES)
    for kind, key in (("live", "live_bytes"), ("alloc", "alloc_bytes")):
        native, calls = folded(snapshot.file, kind), folded(snapshot.file, f"{kind}-calls")
        equal(sum(native.values()), m[key], f"{key} in {kind}")
        for name, truth in account.items():
            ends = [v for stack, v in native.items() if stack.endswith(f";traced_work;{name}")]
            equal(ends, [truth[key]], f"{kind} of {name}")
            equal(calls.get(f"traced_work;{name}"), truth[key], f"{kind}-calls of {name}")
    page = os.path.join(harness.scratch(), "out.html")
    done = harness.roletrace("flame", snapshot.file, "-o", page)
    equal(done.returncode, 0, f"flame: {done.stderr}")
    with open(page) as file:
        text = file.read()
    for kind in ("live", "alloc", "live-calls", "alloc-calls"):
        check(f'"kind":"{kind}"' in text.replace(" ", ""), f"{kind} in the page")


def test_native_stack_of_a_leak():
    """The suspect names its native stack, down to what is not traced."""
    for args in (("--sample-bytes", 1), ("--sample-bytes", "1k")):
        f = Fixture("allocs", 1, 10, exe=os.path.join(harness.FIXTURES, "rust-allocs-plain"))
        f.ask("churn")
        t = Trace(
            *(f, "--memory", "stacks", "--leak-after", 1.5, *args), functions=("allocs::traced_*",)
        )
        f.ask("leak 8")
        snapshot = t.stop()
        f.finish()
        m = snapshot.doc["memory"]
        growing = [r for r in m["native"] if r["verdict"] == "growing"]
        equal([names_of(snapshot, r)[-2:] for r in growing], [["allocs::main", "allocs::traced_leak"]], "growing")
        equal(
            [s["frames"][-1] for s in m["stacks"] if s["verdict"] == "growing"],
            ["allocs::traced_leak"],
            "growing by calls",
        )
        equal(m["stacks"][growing[0]["stack"]]["frames"][-1], "allocs::traced_leak", "its calls")
        at = next(i for i, line in enumerate(t.stdout) if line.startswith("  native stack, "))
        check("allocs::main" in "\n".join(t.stdout[at : at + 8]), f"report: {t.stdout[at:]}")
        # an estimate has its error, and what is none has none
        estimated = args[1] != 1
        equal(growing[0]["old_error_bytes"] > 0, estimated, f"its error: {growing[0]}")
        equal(" ± " in t.stdout[at], estimated, f"report: {t.stdout[at]}")


def test_sample_bytes_only_with_stacks():
    for words in (("--memory", "live"), ("--memory", "off"), ()):
        done = harness.roletrace("--pid", os.getpid(), *words, "--sample-bytes", "64k")
        equal(done.returncode, 2, f"exit code with {words}: {done.stderr}")
        check("--memory stacks" in done.stderr, f"said: {done.stderr}")
    for bad in ("-1", "5x", "k", "", "2G", "1kk", "0x10", "99999999999999999999"):
        done = harness.roletrace("--pid", 1, "--memory", "stacks", "--sample-bytes", bad)
        equal(done.returncode, 2, f"exit code of '{bad}': {done.stderr}")
