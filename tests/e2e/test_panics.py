# SPDX-License-Identifier: BSD-2-Clause
"""P1: panics that the target catches are its own business."""

import json

from harness import CARGO_BIN, Fixture, Trace, equal, trace

EXITS = ("auto", "sites")


def caught(f, name, ok, panics):
    answer = json.loads(f.line())
    equal((answer["ok"], answer["caught"]), (ok, panics), f"{name}: ok, caught")
    return answer


def test_p1_caught_panics():
    f = Fixture("panics", "few")
    snapshot, truth = trace(f, functions=["panics::risky"])
    caught(f, "panics", 30, 10)
    row = snapshot.row("panics::risky")
    equal([row[k] for k in ("calls", "returned", "unwound", "in_flight")], [40, 30, 10, 0], "P1")
    snapshot.exact(truth)
    snapshot.nothing_lost()
    f.finish()


def test_p1_ten_thousand_nested_panics():
    f = Fixture("panics", "storm")
    snapshot, truth = trace(f, "--exclude", "panics::fixture::*", functions=["panics::*"])
    caught(f, "panics", 3208, 11192)
    snapshot.exact({name: {**row, "in_flight": 0} for name, row in truth.items()})
    snapshot.nothing_lost()
    f.finish()


def test_p1_uretprobe_free_by_default():
    f = Fixture("panics", "few")
    snapshot, _ = trace(f, functions=["panics::*"])
    equal(
        {r["exit"] for r in snapshot.functions} - {"sites", "edges", "guarded"}, set(), "exit kinds"
    )
    f.finish()


def tokio_panics(tasks):
    f = Fixture("tokio_panics", tasks, exe=f"{CARGO_BIN}/tokio_panics")
    snapshot, truth = trace(
        f, functions=["tokio_panics::explode", "tokio_panics::prepare", "tokio_panics::job*"]
    )
    answer = caught(f, "tokio_panics", tasks // 2, tasks // 2)
    snapshot.exact({name: {**row, "in_flight": 0} for name, row in truth.items()})
    (poll,) = snapshot.rows("tokio_panics::job")
    got = [poll[k] for k in ("calls", "returned", "unwound", "in_flight")]
    equal(got, [answer["polls"], tasks + tasks // 2, tasks // 2, 0], "polls of job")
    snapshot.nothing_lost()
    f.finish()


def test_p1_panicking_task():
    tokio_panics(2)


def test_p1_ten_thousand_panicking_tasks():
    tokio_panics(20_000)


def test_p1_panics_while_attaching_and_detaching():
    """Tracers come and go while others panic: the target must not notice."""
    f = Fixture("panics", "storm")
    f.say("go")
    for _ in range(3):
        t = Trace(f, functions=["panics::*"])
        t.stop()
    f.line()
    caught(f, "panics", 3208, 11192)
    f.finish()
