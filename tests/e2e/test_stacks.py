# SPDX-License-Identifier: BSD-2-Clause
"""P3-P7: what programs do to their stacks: coroutines, longjmp, tail calls, recursion."""

from harness import Fixture, Trace, check, close, equal, roletrace, trace

MS = 1_000_000

EXITS = ("auto", "sites")


def coroutines(*args):
    """Nothing may happen to the target, and what cannot be told must be said to be lost."""
    f = Fixture("coroutines", *args)
    snapshot, truth = trace(f)
    row, wanted = snapshot.row("traced_yielding"), truth["traced_yielding"]
    equal(row["calls"], wanted["calls"], "calls on coroutine stacks")
    if row["returned"] != wanted["returned"]:
        check(sum(snapshot.lost.values()) > 0, f"not all returned, yet nothing is lost: {row}")
    equal(
        snapshot.row("traced_inner")["calls"],
        truth["traced_inner"]["calls"],
        "calls of traced_inner",
    )
    f.finish()


def test_p3_coroutines_on_malloced_stacks():
    coroutines("malloc", 2, 1)


def test_p3_coroutines_on_mapped_stacks():
    coroutines("mmap", 2, 1)


def test_p3_many_coroutines():
    coroutines("malloc", 8, 20)


def test_p4_longjmp():
    f = Fixture("longjmp")
    snapshot, truth = trace(f)
    snapshot.exact({name: {**row, "in_flight": 0} for name, row in truth.items()})
    row = snapshot.row("traced_jumper")
    check(30 * MS <= row["max_ns"] < 80 * MS, f"the slow call of 30 ms took {row['max_ns']} ns")
    snapshot.nothing_lost()
    f.finish()


def test_p5_tail_calls():
    f = Fixture("tail_calls")
    snapshot, truth = trace(f)
    inside = truth.pop("traced_jumps_inside")
    snapshot.exact({name: {**row, "in_flight": 0} for name, row in truth.items()})
    for row in snapshot.rows("traced_jumps_inside"):
        equal(
            (row["calls"], row["in_flight"]),
            (inside["calls"], 0),
            "a jump into the middle of a function",
        )
    if not snapshot.rows("traced_jumps_inside"):
        refused = [
            s["reason"] for s in snapshot.doc["skipped"] if s["name"] == "traced_jumps_inside"
        ]
        check(refused, "a jump into the middle of a function: a row, or refused by name")
    f.finish()


def test_p5_tail_calls_alone():
    """Only the jumping functions: their callee's end must not be taken for theirs."""
    f = Fixture("tail_calls")
    snapshot, truth = trace(f, functions=["traced_tail_*"])
    names = [n for n in truth if n.startswith("traced_tail_")]
    snapshot.exact({n: {**truth[n], "in_flight": 0} for n in names})
    equal(snapshot.rows("traced_callee"), [], "rows of traced_callee")
    snapshot.nothing_lost()
    f.finish()


def test_p6_recursion():
    f = Fixture("recursion", 100)
    snapshot, _ = trace(f)
    row = snapshot.row("traced_recursive")
    equal((row["calls"], row["returned"], row["in_flight"]), (101, 101, 0), "recursion of 100")
    check(row["total_ns"] < row["sum_ns"], "total_ns must count the outermost call only")
    check(row["total_ns"] <= row["max_ns"] * 1.01, f"one outermost call: {row}")
    snapshot.nothing_lost()
    f.finish()


def test_p6_recursion_is_said_in_the_report():
    """Each of 1,000 open calls has the probes within taken off: more than all probes took, and it says so."""
    f = Fixture("recursion", 1000)
    t = Trace(f)
    f.go()
    snapshot = t.stop()
    f.finish()
    report = roletrace("report", t.file).stdout
    row = next(line for line in report.splitlines() if line.startswith("traced_recursive"))
    check("r" in row.split()[1], row)
    check("\n  r  calls itself: Total is of the outermost calls alone" in report, report)
    overhead = snapshot.doc["overhead"]
    check(overhead["corrected_ns"] > overhead["hits"] * overhead["ns_per_hit"], f"{overhead}")
    check("each counts once for every open call around it" in report, report)


def test_p6_recursion_beyond_the_shadow_stack():
    f = Fixture("recursion", 10_000)
    snapshot, truth = trace(f)
    row = snapshot.row("traced_recursive")
    equal(
        (row["calls"], row["unwound"], row["in_flight"]),
        (10_001, 0, 0),
        "calls, unwound, in flight",
    )
    equal(row["returned"] + snapshot.lost["depth_exceeded"], 10_001, "timed or said to be too deep")
    snapshot.nothing_lost("depth_exceeded")
    f.finish()


def test_p7_nesting():
    f = Fixture("nested")
    snapshot, truth = trace(f)
    snapshot.exact({name: {**row, "in_flight": 0} for name, row in truth.items()})
    snapshot.nothing_lost()
    outer, g = snapshot.row("traced_f"), snapshot.row("traced_g")
    close(outer["max_ns"], 60 * MS, 0.15, "f around g around f")
    close(outer["min_ns"], 30 * MS, 0.15, "the inner f")
    close(g["max_ns"], 50 * MS, 0.15, "g")
    close(outer["total_ns"], 60 * MS, 0.15, "total of f: its outermost call only")
    close(outer["self_ns"], 40 * MS, 0.15, "self time of f")
    close(g["self_ns"], 20 * MS, 0.15, "self time of g")
    for r in (outer, g):
        check(r["share"] <= 1, f"share of one thread's time: {r['share']}")
    edges = {(e["caller"], e["callee"]): e["calls"] for e in snapshot.doc["edges"]}
    equal(edges.get(("traced_f", "traced_g")), 1, f"edge f -> g of {edges}")
    equal(edges.get(("traced_g", "traced_f")), 1, "edge g -> f")
    equal(
        edges.get(("traced_even", "traced_odd")), truth["traced_odd"]["calls"], "edge even -> odd"
    )
    f.finish()


def signals(*args):
    f = Fixture("signals", *args)
    snapshot, truth = trace(f)
    if args[0] == "own":
        for (
            row
        ) in snapshot.functions:  # the last jump's frames: nothing came after that could sweep them
            stale = row.get("in_flight_stale", 0)
            row["in_flight"] -= stale
            row["unwound"] += stale
        snapshot.exact({name: {**row, "in_flight": 0} for name, row in truth.items()})
        snapshot.nothing_lost()
    else:
        snapshot.exact({name: {"calls": row["calls"]} for name, row in truth.items()})
        snapshot.nothing_lost("other_stack")
    f.finish()


def test_signal_handler():
    signals("own", "return")


def test_signal_handler_on_another_stack():
    signals("other", "return")


def test_signal_handler_leaves_by_siglongjmp():
    signals("own", "jump")


def test_signal_handler_leaves_another_stack_by_siglongjmp():
    signals("other", "jump")


def test_uretprobes_when_asked_for():
    """Where nothing unwinds they agree with the sites."""
    for name, args in (("nested", ()), ("recursion", (50,)), ("calls", ())):
        f = Fixture(name, *args)
        snapshot, truth = trace(f, "--exit", "uretprobe")
        snapshot.exact({name: {**row, "in_flight": 0} for name, row in truth.items()})
        snapshot.nothing_lost()
        equal({r["exit"] for r in snapshot.functions}, {"uretprobe"}, "exit kinds")
        f.finish()
