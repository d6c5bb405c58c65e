# SPDX-License-Identifier: BSD-2-Clause
"""P3, P4: calls that were left without an exit, at the moment of detaching: what is counted as in
flight is what is on a stack, to the call, and nothing is left in doubt that a stack can tell."""

from harness import Fixture, equal, trace

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


def test_p4_left_by_longjmp():
    settled("longjmp")


def test_p3_left_on_a_stack_that_another_coroutine_runs_on():
    settled("reused", lost=["other_stack"])


def test_p3_suspended_coroutine_is_in_flight():
    settled("suspended", lost=["other_stack"])


def test_calls_that_wait_are_in_flight():
    """Also one that was jumped to: its return address is behind the call of another function."""
    settled("blocked")


def test_thread_that_exits_inside_a_call():
    settled("exits")
