# SPDX-License-Identifier: BSD-2-Clause
"""P3, P4: calls that were left without an exit, at the moment of detaching: what is counted as in
flight is what is on a stack, to the call, and nothing is left in doubt that a stack can tell."""

from harness import Fixture, check, equal, trace

EXITS = ("auto", "sites")


def settled(how, *args, stale=0, lost=(), fixture="left", **kwargs):
    f = Fixture(fixture, how)
    snapshot, truth = trace(f, *args, **kwargs)
    snapshot.exact(truth)
    equal(sum(r["in_flight_stale"] for r in snapshot.functions), stale, "calls left in doubt")
    snapshot.nothing_lost(*lost)
    return f, snapshot


def test_p4_left_by_setcontext():
    settled("setcontext")


def test_p4_left_by_a_jump_that_nobody_sees():
    settled("builtin")


def swept(how, fixture="left", children=("traced_after",), **kwargs):
    """At the jump itself: what is called from deeper places is no child of those that were left."""
    f, snapshot = settled(how, fixture=fixture, **kwargs)
    edges = [(e["caller"], e["callee"]) for e in snapshot.doc["edges"]]
    equal([e for e in edges if e[1] in children], [], "callers of what was called afterwards")
    (path,) = [p["frames"] for p in snapshot.doc["paths"] if p["frames"][-1] in children]
    equal(path, ["traced_after"], "path of what was called afterwards")
    f.finish()
    return snapshot


def test_p4_left_by_longjmp():
    swept("longjmp")


def test_p4_left_by_checked_longjmp():
    swept("checked")


def test_p4_left_by_longjmp_linked_in():
    swept("longjmp", fixture="left-static")


def test_p4_left_by_siglongjmp_from_a_handler():
    swept("own_signal")


def test_p4_left_by_siglongjmp_from_another_stack():
    swept("signal", lost=["other_stack"])


def test_p4_left_by_exceptions():
    snapshot = swept("20", fixture="thrown-dynamic")
    calls = sum(r["calls"] + r["returned"] for r in snapshot.functions)
    equal(snapshot.doc["overhead"]["hits"], calls + 10, "hits: 10 exceptions were caught too")


def test_p4_left_by_exceptions_linked_in():
    swept("20", fixture="thrown-static")


def test_p3_left_on_a_stack_that_another_coroutine_runs_on():
    settled("reused", lost=["other_stack"])


def test_p3_suspended_coroutine_is_in_flight():
    """Whether it will ever go on nobody can tell: that is said."""
    _, snapshot = settled("suspended", lost=["other_stack"], stale=1)
    equal(snapshot.row("traced_yields")["in_flight_stale"], 1, "calls of the coroutine in doubt")


def not_wrong(how):
    """Calls that are not settled are in doubt; how many."""
    snapshot, truth = trace(Fixture("left", how))
    for name, wanted in truth.items():
        row = snapshot.row(name)
        equal((row["calls"], row["returned"]), (wanted["calls"], 0), f"calls, returned: {name}")
        sure = row["in_flight"] - row["in_flight_stale"]
        check(sure <= wanted["in_flight"] <= row["in_flight"], f"{name}: {row}, truth {wanted}")
    return sum(snapshot.row(name)["in_flight_stale"] for name in truth)


def test_left_by_a_thread_that_hardly_waits():
    doubts = []
    while not doubts or (doubts[-1] and len(doubts) < 4):  # a busy machine disturbs its short waits
        doubts.append(not_wrong("busy"))
    equal(doubts[-1], 0, f"in doubt, each time: {doubts}")


def test_left_by_a_thread_that_never_waits():
    """Its stack stands still only while others have its CPU: else its calls are in doubt."""
    not_wrong("spins")


def test_left_again_and_again():
    """What a witness saw is gone by the end: what is open then is in doubt, or seen to be left."""
    snapshot, _ = trace(Fixture("left", "turns"))
    for name in ("traced_outer", "traced_between", "traced_deep"):
        row = snapshot.row(name)
        check(row["calls"] > 20 and row["returned"] == 0, f"{name}: {row}")
        equal(row["in_flight"], row["in_flight_stale"], f"{name}: in flight, in doubt")


def test_calls_that_wait_are_in_flight():
    """Also one that was jumped to: its return address is behind the call of another function."""
    settled("blocked")


def test_call_that_waits_in_its_cold_part_is_in_flight():
    settled("cold")


def test_thread_that_exits_inside_a_call():
    settled("exits")
