# SPDX-License-Identifier: BSD-2-Clause
"""Older kernels: each thing they lack is taken away with the hidden --without; what there is another
way for must still be exact, the rest is one line that names it."""

import contextlib
import os
import re
import signal
import time

import bpf
import harness
import test_life
import test_loss
import test_panics
import test_stacks
from harness import Fixture, Trace, check, equal, trace, until

CORE = (
    test_panics.test_p1_caught_panics,
    test_panics.test_p1_ten_thousand_nested_panics,
    test_panics.test_p1_panicking_task,
    test_stacks.test_p3_coroutines_on_malloced_stacks,
    test_stacks.test_p3_many_coroutines,
    test_stacks.test_p4_longjmp,
    test_stacks.test_p6_recursion_beyond_the_shadow_stack,
    test_stacks.test_p6_recursion,
    test_stacks.test_p5_tail_calls,
    test_stacks.test_signal_handler_on_another_stack,
    test_stacks.test_uretprobes_when_asked_for,
    test_loss.test_b1_threads_that_end_inside_a_call,
    test_life.test_l1_deleted_executable,
    test_life.test_l6_fork_child_is_not_counted,
    test_life.test_l8_exec_ends_the_series,
    test_life.test_l11_main_thread_gone_before,
    test_life.test_target_exits,
)


@contextlib.contextmanager
def without(features):
    harness.always[:] = ["--without", features]
    try:
        yield
    finally:
        harness.always.clear()


def core(features):
    cases = list(CORE)
    if "uprobe_multi" not in features:
        cases.append(test_life.test_l11_main_thread_goes_meanwhile)
    with without(features):
        for case in cases:
            try:
                case()
            except harness.Failure as e:
                raise harness.Failure(f"{case.__name__} without {features}: {e}") from None
            harness.clean_up()


def test_core_without_uprobe_multi():
    core("uprobe_multi")


def test_core_without_task_storage():
    core("task_storage")


def test_core_without_links_by_process():
    core("multi_pid")


def test_core_without_all_that_can_be_done_without():
    core("uprobe_multi,task_storage,multi_pid")


for _test in (
    test_core_without_uprobe_multi,
    test_core_without_all_that_can_be_done_without,
):
    _test.seconds = 300  # each end waits for the kernel, probe after probe


# ---- single probes ----


def ours():
    """The processes of this program, keepers of probes too."""
    mine = os.stat(harness.ROLETRACE).st_ino
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}/exe").st_ino == mine:
                found.append(int(pid))
    return found


def gone(f, before, seconds):
    until(lambda: not f.breakpoints(), seconds, "breakpoints gone")
    until(lambda: not bpf.leftovers(before), seconds, "BPF objects gone")
    until(lambda: not ours(), seconds, f"processes gone: {ours()}")


def test_single_probes_are_few_and_said_so():
    f = Fixture("many", 2)
    t = Trace(f, "--without", "uprobe_multi")
    f.say("go")
    time.sleep(0.3)
    check(0 < len(f.breakpoints()) <= 34, f"breakpoints: {len(f.breakpoints())}")
    truth = f.ask("quiesce")["truth"]
    start = time.monotonic()
    snapshot = t.stop()
    took = time.monotonic() - start
    check(took < 8, f"took {took:.1f} s to leave")
    equal(len(snapshot.functions), 16, "functions of two probes each")
    calls = truth["traced_a000"]["calls"]
    for row in snapshot.functions:
        equal((row["calls"], row["returned"]), (calls, calls), f"calls of {row['name']}")
    left_out = {s["name"] for s in snapshot.doc["skipped"] if "uprobe_multi" in s["reason"]}
    equal(len(left_out) + 16, 2000, "functions probed and said not to be")
    said = [line for line in t.stderr if "no uprobe_multi links: 16 functions are probed" in line]
    equal(len(said), 1, f"lines that say so: {t.stderr}")
    f.finish()


def test_single_probes_killed():
    """The keepers see the death of the one they keep for, and close."""
    f = Fixture("many", 2)
    f.say("go")
    before = bpf.ids()
    t = Trace(f, "--without", "uprobe_multi")
    check(f.breakpoints() and len(ours()) > 1, "no breakpoints, no keepers: the test sees nothing")
    t.process.kill()
    t.process.wait()
    gone(f, before, 20)
    with without("uprobe_multi"):
        again = Trace(f)
        again.stop()
    f.ask("quiesce")
    f.finish()


def test_single_probes_killed_while_attaching_and_detaching():
    f = Fixture("many")
    f.say("go")
    before = bpf.ids()
    for i in range(6):
        t = Trace(f, "--without", "uprobe_multi", wait=False)
        if i % 2:
            t.wait_attached()
            t.process.send_signal(signal.SIGINT)
            time.sleep(0.05 * i)
        else:
            time.sleep(0.03 + 0.03 * i)
        t.process.kill()
        t.process.wait()
        gone(f, before, 20)
    f.ask("quiesce")
    f.finish()


def test_single_probes_go_with_the_main_thread_and_come_again():
    f = Fixture("no_main_thread", "late")
    t = Trace(f, "--without", "uprobe_multi")
    f.say("leave")
    until(lambda: any("armed again" in s for s in t.stderr), 20, f"armed again: {t.stderr}")
    truth = f.go()
    snapshot = t.stop()
    snapshot.exact(truth)
    equal(snapshot.lost["sites_disarmed"], 2, "probes that were gone for a time")
    f.finish()


def test_single_probes_of_a_library():
    """Of this process alone, by its memory: as with links."""
    f = Fixture("uses_versions")
    snapshot, truth = trace(
        f, "--without", "uprobe_multi", functions=["traced_*", "libversions.so:traced_*"]
    )
    snapshot.exact(truth)
    f.finish()


# ---- links that see one thread ----


def test_thread_links_are_told_from_process_links():
    """The detection itself, on a link that sees the thread and on one that does not."""
    for args, start in (((), "ok"), (("--without", "multi_pid"), "--")):
        done = harness.roletrace("check", *args)
        equal(done.returncode, 0, done.stdout)
        line = re.search(r"^(..)  links by process", done.stdout, re.M)
        check(line and line[1] == start, f"links by process: {done.stdout}")


def test_thread_links_of_other_processes_do_not_count():
    f, other = Fixture("calls"), Fixture("calls")
    t = Trace(f, "--without", "multi_pid")
    check(other.breakpoints(), "the probes are in one process only: nothing is tested")
    other.go()
    truth = f.go()
    snapshot = t.stop()
    snapshot.exact(truth)
    snapshot.nothing_lost()
    equal(other.breakpoints(), [], "breakpoints in the other")
    check(any("run over the probes too" in line for line in t.stderr), f"not said: {t.stderr}")
    f.finish()
    other.finish()


def test_thread_links_refuse_libraries():
    f = Fixture("uses_versions")
    t = Trace(f, "--without", "multi_pid", functions=["traced_*", "libversions.so:traced_*"])
    truth = f.go()
    snapshot = t.stop()
    reasons = {s["name"]: s["reason"] for s in snapshot.doc["skipped"]}
    check("every process" in reasons["libversions.so:traced_plain"], f"reasons: {reasons}")
    rows = [r["name"] for r in snapshot.functions]
    check(rows and not [n for n in rows if n.startswith("libversions")], f"rows: {rows}")
    snapshot.exact({n: row for n, row in truth.items() if not n.startswith("libversions")})
    f.finish()


# ---- shadow stacks by thread id ----


def test_hash_of_stacks_is_emptied_by_threads_that_end():
    """2,700 threads, never more than 900 at a time. (Each waits at a futex of its own, and of those
    there is room for fewer.)"""
    f = Fixture("crowd", 900)
    t = Trace(f, "--without", "task_storage", "--no-threads")
    for _ in range(3):
        truth = f.go()
    snapshot = t.stop()
    snapshot.exact({name: {**row, "in_flight": 0} for name, row in truth.items()})
    snapshot.nothing_lost()
    f.finish()


def test_hash_of_stacks_is_full():
    f = Fixture("crowd", 1100)
    t = Trace(f, "--without", "task_storage")
    truth = f.go()
    snapshot = t.stop()
    row = snapshot.row("traced_waits")
    equal(row["calls"], truth["traced_waits"]["calls"], "calls")
    equal(snapshot.lost["no_storage"], 1100 - 1024, "threads that found no place")
    equal(row["returned"], 1024, "timed")
    f.finish()


# ---- what there is no other way for ----

NEEDED = {
    "btf": "kernel BTF",
    "bpf": "BPF programs",
    "mmap_array": "mappable arrays",
    "current_task": "task in a probe",
    "cookie": "probe cookies",
    "bpf_loop": "bpf_loop",
    "find_vma": "bpf_find_vma",
    "tp_btf": "BTF tracepoints",
    "task_iter": "task iterator",
    "task_regs": "bpf_task_pt_regs",
    "lockdown": "lockdown",
    "uprobe_multi,perf_uprobe": "single probes",
}


def test_each_missing_thing_is_named():
    f = Fixture("calls")
    for key, name in NEEDED.items():
        file = os.path.join(harness.scratch(), "x.json")
        done = harness.roletrace(
            "--pid", f.pid, "-f", "traced_*", "-d", "1", "-o", file, "--without", key
        )
        equal(done.returncode, 4, f"exit code without {key}: {done.stderr}")
        equal(len(done.stderr.strip().splitlines()), 1, f"lines without {key}: {done.stderr}")
        check(f" {name}: " in done.stderr, f"'{name}' is not named: {done.stderr}")
        check(not os.path.exists(file), f"a file was written without {key}")
        done = harness.roletrace("check", "--without", key)
        equal(done.returncode, 4, f"exit code of check without {key}")
        check(re.search(f"^NO  {name} ", done.stdout, re.M), f"check: {done.stdout}")
    equal(f.breakpoints(), [], "breakpoints")
    f.finish()


def test_unknown_feature_is_no_guess():
    for word in ("magic", "uprobe_multi,magic", ","):
        done = harness.roletrace("check", "--without", word)
        equal(done.returncode, 2, f"exit code of --without {word}: {done.stderr}")
