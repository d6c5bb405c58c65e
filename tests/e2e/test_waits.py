# SPDX-License-Identifier: BSD-2-Clause
"""Off-CPU time by stack: waits that began before, each thread's time, and who ended the waits."""

import json
import os
import re

import harness
from checks import check, close, equal
from harness import Fixture, Trace
from profiles import Profile

# a function that is on the stacks of one thread only
OF = {
    "always": "waits_always",
    "nap": "naps_once",
    "called": "waits_for_call",
    "other": "waits_for_other",
}


def run(*args):
    f = Fixture("wakes")
    f.run_undisturbed()
    t = Trace(f, "--no-functions", "--off-cpu", *args, functions=())
    truth = f.go()
    snapshot = t.stop()
    f.finish()
    return snapshot, truth, t


def of(profile, function):
    return [s for s in profile.stacks if function in profile.names(s)]


def test_waits_from_before():
    """A thread that waits all the while is in the profile, with the whole window."""
    snapshot, truth, t = run()
    window_ns = snapshot.doc["window"]["duration_ns"]
    profile = Profile(snapshot, "off_cpu")
    (stack,) = of(profile, "waits_always")
    equal((stack["count"], stack["older"]), (1, 1), "waits, those from before")
    close(stack["value"], window_ns, 0.01, "of the window")
    equal(stack.get("truncated"), None, "it is whole")
    names = profile.names(stack)
    equal(names[-1], "[kernel: futex]", "innermost")
    # all of them but, perhaps, the napping one
    check(5 <= profile.doc["older"] <= 6, f"waits from before: {profile.doc['older']}")
    equal(sum(s.get("older", 0) for s in profile.stacks), profile.doc["older"], "by stack")
    check(any("since the attach" in line for line in t.stdout), "said in the report")


def test_waits_from_before_by_thread():
    snapshot, _, _ = run("--by-thread", "--wakers")
    profile = Profile(snapshot, "off_cpu")
    (stack,) = of(profile, "waits_always")
    equal((stack["thread"], stack["older"]), ("always", 1), "whose it is")
    equal(profile.names(stack)[-1], "[kernel: futex]", "innermost, behind the name")
    equal({s["thread"] for s in of(profile, "waits_for_call")}, {"called"}, "a thread of its own")
    check(pairs(profile, "waits_for_call"), "who ends its waits")


def test_waits_of_a_thread_add_up():
    """Over its stacks they are what the scheduler's account has: blocked, and woken without a CPU."""
    snapshot, truth, _ = run()
    profile = Profile(snapshot, "off_cpu")
    threads = {t["name"]: t for t in snapshot.doc["threads"]}
    for name, function in OF.items():
        row = threads[name]
        waited = sum(row["off_cpu_ns"].values()) + row["run_queue_ns"] - row["preempted_ns"]
        got = sum(s["value"] for s in of(profile, function))
        close(got, waited, 0.03, f"waits of {name}")


def pairs(profile, waiter):
    """Who ended the waits in a function: ((function of the waker or what it is), count, ns)."""
    found = []
    for w in profile.doc["wakers"]:
        waiting = [profile.frames[i]["name"] for i in w["frames"]]
        waking = [profile.frames[i]["name"] for i in w["waker"]]
        if waiter in waiting:
            check(not w.get("truncated") and not w.get("waker_truncated"), f"whole: {w}")
            found.append((w["by"], w.get("name"), waking, w["count"], w["value"]))
    return found


def waker_rows(file):
    """The report's table of who ended waits: waits by (waiting in, woken by)."""
    text = harness.roletrace("report", file, "--limit", "100", "--width", "140").stdout
    said, _, table = text[text.index("Who ended "):].partition("\n")
    lines = table.partition("\n\n")[0].splitlines()
    equal(re.split("  +", lines[0].strip()), ["Time", "Waits", "Mean", "Waiting in", "Woken by"], "columns")
    rows = {}
    for line in lines[1:]:
        waits, waiter, waker = re.match(r"\S+ +(\d+) +\S+  (.*?)  +(.*)$", line.strip()).groups()
        rows[waiter, waker] = int(waits)
    equal(int(said.split()[2]), sum(rows.values()), said)
    return rows


def test_wakers():
    """Who ends a wait, from which function, how often; others by what they are."""
    snapshot, truth, t = run("--wakers")
    profile = Profile(snapshot, "off_cpu")
    equal(profile.doc["wakers_lost"], 0, "lost")
    by = {"calls_here": 0, "calls_there": 0}
    for who, name, waking, count, ns in pairs(profile, "waits_for_call"):
        equal((who, name), ("thread", None), "who")
        equal(waking[-1], "[kernel: futex]", "the waker's innermost frame")
        mine = [n for n in waking if n in by]
        equal(len(mine), 1, f"function of the waker: {waking}")
        check(waking.index("work") < waking.index(mine[0]), f"roots first: {waking}")
        by[mine[0]] += count
    # it may find its call there already, without a wait: on a busy machine a few
    for name, want in (("calls_here", truth["here"]), ("calls_there", truth["there"])):
        check(0.7 * want <= by[name] <= want, f"{name}: {by[name]} of {want}")

    others = pairs(profile, "waits_for_other")
    equal({(who, name) for who, name, *_ in others}, {("process", "wakes-child")}, "who")
    count = sum(o[3] for o in others)
    check(0.7 * truth["other"] <= count <= truth["other"], f"{count} of {truth['other']}")
    equal({who for who, *_ in pairs(profile, "naps_once")}, {"interrupt"}, "the timer")
    equal(pairs(profile, "waits_always"), [], "what nobody ends")

    # the same waits as in the stacks, but for those that go on
    for function in ("naps_once", "waits_for_call"):
        waits = sum(s["count"] for s in of(profile, function))
        ended = sum(p[3] for p in pairs(profile, function))
        # the last one goes on, unless it runs just then
        check(waits - 1 <= ended <= waits, f"waits in {function}: {waits}, ended {ended}")

    again = harness.roletrace("report", t.file).stdout.splitlines()
    equal(again, t.stdout, "the report of the file")
    rows = waker_rows(t.file)
    for waiter, waker, want in (
        ("waits_for_call", "calls_here", truth["here"]),
        ("waits_for_call", "calls_there", truth["there"]),
        ("waits_for_other", "[process: wakes-child]", truth["other"]),
    ):
        check(0.7 * want <= rows[waiter, waker] <= want, f"{waiter}, {waker}: {rows} of {want}")
    check(("naps_once", "[interrupt]") in rows, f"the timer: {rows}")
    equal(sum(rows.values()), sum(w["count"] for w in profile.doc["wakers"]), "all of them")
    out = os.path.join(harness.scratch(), "out.folded")
    harness.roletrace("flame", t.file, "--kind", "wakers", "-o", out)
    with open(out) as f:
        rows = [line.rpartition(" ")[0].split(";") for line in f]
    chain = next(r for r in rows if "waits_for_call" in r and "calls_there" in r)
    mark = chain.index("[woken by]")
    check(chain.index("waits_for_call") < mark < chain.index("calls_there"), f"order: {chain}")
    check(chain[mark:].index("calls_there") < chain[mark:].index("work"), f"head down: {chain}")
    equal(chain[mark + 1], "[kernel: futex]", "next to the wait: what ended it")
    check(any(r[-1] == "[process: wakes-child]" for r in rows), "the child")
    check(any(r[-1] == "[interrupt]" and "naps_once" in r for r in rows), "the timer")


def test_wakers_not_asked_for():
    snapshot, _, t = run()
    check("wakers" not in snapshot.doc["profiles"]["off_cpu"], "no wakers")
    check(not any("Who ended" in line for line in t.stdout), "no table of them")


def test_waits_at_any_depth():
    """Frames of some words and of more than a page, stacks of a dozen lengths in no order: each has
    its sleeps, and they need no more places than there are stacks."""
    f = Fixture("depths")
    t = Trace(f, "--no-functions", "--off-cpu", "--profile-stacks", 32, functions=())
    f.say("go")
    sleeps = json.loads(f.line())["sleeps"]
    profile = Profile(t.stop(), "off_cpu")
    f.finish()
    equal(sum(profile.doc["lost"].values()), 0, f"lost: {profile.doc['lost']}")
    equal(profile.whole(), 1.0, f"whole: {profile.doc['truncated']}")
    found = {}
    for s in profile.stacks:
        down = [n for n in profile.names(s) if n.startswith("down_")]
        equal(down, [f"down_{i + 1}" for i in range(len(down))], "each after its caller")
        if down:
            found[down[-1]] = found.get(down[-1], 0) + s["count"]
    # one that was disturbed on its way to sleep had nothing left to wait for
    few = {d: n - found.get(d, 0) for d, n in sleeps.items()}
    check(all(0 <= n <= sleeps[d] // 20 for d, n in few.items()), f"sleeps {sleeps}, waits {found}")
