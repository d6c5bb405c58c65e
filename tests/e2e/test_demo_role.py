# SPDX-License-Identifier: BSD-2-Clause
"""The main job on a tokio server: every figure of its own functions is its own count."""

import time

from harness import Trace, check, close, demo_role, equal


def difference(after, before):
    return {
        name: {k: row[k] - before[name][k] for k in ("calls", "returned", "panicked", "ns")}
        for name, row in after.items()
    }


def traced_role(*args, seconds=3, rate=300):
    """The role under load for a while, by default selection; (snapshot, truth of the window)."""
    role = demo_role("--rate", rate)
    before = role.ask("truth")["truth"]
    t = Trace(role, *args, functions=())
    role.say("go")
    time.sleep(seconds)
    role.say("quiesce")
    equal(role.line(), "quiet", "the role")
    snapshot = t.stop()
    truth = difference(role.ask("truth")["truth"], before)
    role.say("stop")
    role.line()
    role.finish()
    return snapshot, truth


def test_demo_role_counts_are_its_own():
    snapshot, truth = traced_role()
    snapshot.exact({name: {**row, "in_flight": 0} for name, row in truth.items()})
    snapshot.nothing_lost()
    check(truth["demo_role::share::check_share"]["panicked"] > 5, f"panics: {truth}")
    for name in ("demo_role::ledger::sync_journal", "demo_role::ledger::settle_batch"):
        close(snapshot.row(name)["sum_ns"], truth[name]["ns"], 0.1, f"sum of {name}")
    others = {r["crate"] for r in snapshot.functions} - {"demo_role"}
    equal(others, set(), "other crates by default")
    for r in snapshot.functions:
        check("drop_in_place" not in r["name"], f"drop glue as a function: {r['name']}")


def test_demo_role_polls_are_not_latency():
    snapshot, _ = traced_role("--crate", "demo_role", seconds=1)
    polls = snapshot.row("demo_role::server::handle_connection::{{closure}}")
    equal(polls["kind"], "async", "kind of a coroutine's poll")
    equal(snapshot.row("demo_role::share::check_share")["kind"], "fn", "kind of a function")
    # not parse_share, which has an ordinary closure
    makers = {r["name"] for r in snapshot.functions if r.get("makes_future")}
    equal(makers, {"demo_role::load::start"}, "async fns with a body of their own")


def test_demo_role_under_the_default_budget():
    """With a budget the figures may cover less, but say so; the role is as well as ever."""
    role = demo_role("--rate", 2000, "--clients", 32)
    t = Trace(role, functions=(), budget=None)
    role.say("go")
    time.sleep(3)
    role.say("quiesce")
    equal(role.line(), "quiet", "the role")
    snapshot = t.stop()
    truth = role.ask("truth")["truth"]
    for name, row in truth.items():
        # not its closures: those are functions of their own
        for r in [r for r in snapshot.rows(name) if snapshot.plain(r["name"]) == name]:
            check(
                r["calls"] <= row["calls"], f"{name}: {r['calls']} calls seen, {row['calls']} made"
            )
            if r["calls"] < row["calls"] - 100:
                shed = [
                    s["name"] if isinstance(s, dict) else s
                    for s in snapshot.doc["overhead"]["shed"]
                ]
                check(
                    r["coverage"] != "exact" or name in shed,
                    f"{name}: sees part and does not say so: {r}",
                )
    role.say("stop")
    role.line()
    role.finish()
