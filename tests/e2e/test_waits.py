# SPDX-License-Identifier: BSD-2-Clause
"""Off-CPU time by stack: waits that began before, each thread's time, and who ended the waits."""

import time

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


def run(*args, before=0.0):
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
