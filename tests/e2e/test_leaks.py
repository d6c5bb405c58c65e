# SPDX-License-Identifier: BSD-2-Clause
"""--memory stacks: "no leak" is said only of what was looked at for long enough, and whole."""

import os

import harness
from harness import Fixture, Trace, check, equal

STEADY = "No call path looks like a leak"


def looked_at(word, *args, **kwargs):
    """(memory of the snapshot, the report) of a fixture that works a while."""
    f = Fixture("allocs", 1, 10, exe=os.path.join(harness.FIXTURES, "rust-allocs-plain"))
    f.ask("churn")
    t = Trace(f, "--memory", "stacks", *args, functions=("allocs::traced_*",), **kwargs)
    f.ask(word)
    m = t.stop().doc["memory"]
    f.finish()
    return m, "\n".join(t.stdout)


def cannot_tell(m, report, reason):
    equal(m["leaks"]["verdict"], None, f"verdict: {m['leaks']}")
    check(reason in m["leaks"]["reason"], f"why: {m['leaks']}")
    check(f"Cannot tell whether there are leaks: {m['leaks']['reason']}." in report, f"the report: {report}")
    check(STEADY not in report, f"the report: {report}")


def test_leaks_none_is_said_after_a_whole_look():
    m, report = looked_at("sawtooth 5", "--leak-after", 1)
    equal(m["leaks"], {"verdict": "steady", "reason": None}, "leaks")
    check(STEADY in report and "Cannot tell" not in report, f"the report: {report}")


def test_leaks_one_is_one():
    m, report = looked_at("leak 6", "--leak-after", 1)
    equal(m["leaks"], {"verdict": "growing", "reason": None}, "leaks")
    check("Perhaps a leak: " in report and "There may be more" not in report, f"the report: {report}")


def test_leaks_too_short_a_look():
    m, report = looked_at("leak 1", "--leak-after", 2)
    cannot_tell(m, report, "twice --leak-after, 4s")


def test_leaks_blocks_that_were_not_remembered():
    """The table is full of the first ones: those that stay afterwards are in no stack."""
    m, report = looked_at("leak 5", "--leak-after", 1, "--max-blocks", 40)
    check(m["unowned_count"] > 100, f"not remembered: {m['unowned_count']}")
    cannot_tell(m, report, f"{m['unowned_count']} blocks were not remembered, --max-blocks")
    check(f"Not remembered (--max-blocks): {m['unowned_count']} blocks" in report, f"{report}")


def test_leaks_probes_that_were_taken_away():
    """Over budget: from then on nothing is seen, neither blocks that stay nor frees."""
    f = Fixture("allocs", 2, 2_000_000)
    f.ask("churn")
    t = Trace(
        *(f, "--memory", "stacks", "--leak-after", 1), functions=("traced_edges",), budget="1"
    )
    f.ask("churn")
    snapshot = t.stop()
    f.finish()
    m = snapshot.doc["memory"]
    check("over budget" in m["reason"], f"memory.reason: {m['reason']}")
    cannot_tell(m, "\n".join(t.stdout), "probes were taken away after ")
    check("--sample-bytes 64k" in m["leaks"]["reason"], f"no advice: {m['leaks']}")


def grew(fixture, words, mode):
    """(memory of the snapshot, the lines of the report about what made the process larger)"""
    t = Trace(fixture, "--memory", mode, functions=("traced_*",))
    for word in words:
        fixture.ask(word)
    m = t.stop().doc["memory"]
    fixture.finish()
    return m, [line for line in t.stdout if line.startswith(("The process grew by ", "Grows in"))]


def test_growth_past_the_allocator_is_told_in_all_modes():
    for mode in ("live", "stacks"):
        m, said = grew(Fixture("grows"), 4 * ["grow"], mode)
        past = m["data_growth_bytes"] - max(m["live_bytes"], 0)
        check(past > 1 << 20, f"the fixture grew by {past} bytes")
        equal([line.split()[0] for line in said], ["The", "Grows"], f"{mode}: the report of {past} bytes")
        m, said = grew(Fixture("allocs", 1, 100), ["churn"], mode)
        equal(said, [], f"{mode}: the report of {m['data_growth_bytes']} bytes, live {m['live_bytes']}")
