# SPDX-License-Identifier: BSD-2-Clause
"""P8, P9 and how true the durations are."""

import json

from harness import Fixture, Trace, check, close, equal, trace


def test_p8_calls_in_flight_at_attach():
    """Their ends are counted as orphans, never timed (no duration of 2^64 ns)."""
    f = Fixture("in_flight")
    snapshot, truth = trace(f)
    snapshot.exact({name: {**row, "in_flight": 0} for name, row in truth.items()})
    for row in snapshot.rows("traced_long"):
        equal((row["calls"], row["returned"]), (0, 0), "calls of traced_long in the window")
    equal(snapshot.lost["orphan_exits"], 50, "orphan exits")
    snapshot.nothing_lost("orphan_exits")
    f.finish()


def test_calls_in_flight_at_detach():
    f = Fixture("in_flight", "stay")
    snapshot, truth = trace(f)
    snapshot.exact(truth)
    snapshot.nothing_lost()
    f.ask("release")
    f.finish()


def test_p9_floor_of_an_empty_function():
    f = Fixture("empty", 50_000)
    snapshot, truth = trace(f)
    snapshot.exact(truth)
    snapshot.nothing_lost()
    refused = [s["reason"] for s in snapshot.doc["skipped"] if s["name"] == "traced_bare"]
    bare = [r["calls"] for r in snapshot.rows("traced_bare")]
    check(refused or bare == [50_000], f"a bare ret: refused with a reason, or counted; {bare}")
    floor = snapshot.doc["overhead"]["floor_ns"]
    check(floor and floor > 0, f"overhead.floor_ns: {floor}")
    row = snapshot.row("traced_empty")
    check(
        row["p50_ns"] <= 5 * floor, f"an empty function took {row['p50_ns']} ns, floor {floor} ns"
    )
    check(snapshot.doc["overhead"]["hits"] >= 100_000, f"hits: {snapshot.doc['overhead']}")
    f.finish()


def test_sleepers():
    f = Fixture("sleepers", "sleep")
    f.run_undisturbed()
    snapshot, truth = trace(f, functions=["sleepers::*"])
    medians = json.loads(f.line())["p50"]
    snapshot.exact(truth)
    for name, median in zip(("sleepers::one_ms", "sleepers::twenty_ms"), medians):
        row = snapshot.row(name)
        close(row["p50_ns"], median, 0.10, f"p50 of {name}")
        close(row["sum_ns"], truth[name]["ns"], 0.10, f"sum of {name}")
    f.finish()


def test_ten_callees_cost_their_caller_nothing():
    """The probes of traced callees are not their caller's work."""
    f = Fixture("sleepers", "ten")
    f.run_undisturbed()
    alone, together = ["sleepers::caller"], ["sleepers::caller", "sleepers::callee_*"]
    best = {}  # the least disturbed of some rounds
    for _ in range(5):
        for functions in (alone, together):
            t = Trace(f, functions=functions)
            equal(t.function_count, 11 if functions is together else 1, "functions attached to")
            f.go()
            mean = t.stop().row("sleepers::caller")["mean_ns"]
            best[len(functions)] = min(mean, best.get(len(functions), mean))
        if abs(best[2] - best[1]) <= 0.05 * best[1]:
            break
    close(best[2], best[1], 0.05, "mean of the caller with its callees traced, and without")
    f.finish()


def test_raw_durations_contain_the_probes():
    f = Fixture("sleepers", "ten")
    t = Trace(f, "--raw", functions=["sleepers::c*"])
    truth = f.go()
    snapshot = t.stop()
    equal(snapshot.doc["overhead"]["corrected_ns"], 0, "overhead.corrected_ns with --raw")
    wanted = truth["sleepers::caller"]
    close(
        snapshot.row("sleepers::caller")["mean_ns"],
        wanted["ns"] / wanted["calls"],
        0.05,
        "mean, raw",
    )
    f.finish()
