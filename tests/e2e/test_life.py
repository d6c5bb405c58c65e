# SPDX-License-Identifier: BSD-2-Clause
"""L*: processes and files come and go; roletrace's own end, however it comes."""

import os
import random
import shutil
import signal
import time

import bpf
import harness
from harness import Fixture, Trace, check, equal, scratch, trace, until


def copy_of(name):
    path = os.path.join(scratch(), name)
    shutil.copy(os.path.join(harness.FIXTURES, name), path)
    return path


def test_l1_deleted_executable():
    exe = copy_of("calls")
    f = Fixture("calls", exe=exe)
    os.unlink(exe)
    snapshot, truth = trace(f)
    snapshot.exact(truth)
    f.finish()


def test_l1_replaced_executable():
    """The new file of that name is not what runs."""
    exe = copy_of("calls")
    f = Fixture("calls", exe=exe)
    os.rename(copy_of("nested"), exe)
    snapshot, truth = trace(f)
    snapshot.exact(truth)
    f.finish()


def test_l1_deleted_while_traced():
    exe = copy_of("calls")
    f = Fixture("calls", exe=exe)
    t = Trace(f)
    os.unlink(exe)
    truth = f.go()
    t.stop().exact(truth)
    f.finish()


def test_code_moved_off_its_file():
    """Probes sit in the file's pages: that none can be reached is no success."""
    f = Fixture("remapped")
    args = ("--pid", f.pid, "-d", 1, "-f", "traced_*", "-o", "json:/dev/null")
    done = harness.roletrace(*args)
    equal(done.returncode, 1, f"exit code: {done.stderr}")
    check("do not reach the memory" in done.stderr, done.stderr)
    f.go()
    f.finish()


def child_is_not_counted(*args):
    f = Fixture("fork", *args)
    t = Trace(f)
    answer = f.ask("go")
    snapshot = t.stop()
    equal(answer["child_status"], 7, "exit status of the child")
    snapshot.exact(answer["truth"])
    snapshot.nothing_lost()
    f.finish()


def test_l6_fork_child_is_not_counted():
    child_is_not_counted()


def test_l6_vfork_child_is_not_counted():
    child_is_not_counted("vfork")


def test_l8_exec_ends_the_series():
    f = Fixture("exec", os.path.join(harness.FIXTURES, "calls"))
    t = Trace(f)
    f.say("go")
    equal(f.line(), f"ready {f.pid}", "the new program")
    snapshot = t.wait()
    equal(snapshot.doc["target"]["ended"]["reason"], "exec", "why it ended")
    snapshot.exact(
        {"traced_before": {"calls": 5, "returned": 5}, "traced_execs": {"calls": 1, "returned": 0}}
    )
    equal(f.go()["traced_fifty"]["calls"], 50, "calls in the new program")
    f.finish()


def many_while(kill):
    """2,000 functions under traffic; then roletrace ends by the signal, within five seconds."""
    f = Fixture("many", 2)
    f.say("go")
    before = bpf.ids()
    t = Trace(f)
    check(t.function_count >= 2000, f"attached to {t.function_count} functions")
    check(len(bpf.ids() - before) >= 2, "no BPF objects are there: the test sees nothing")
    check(f.breakpoints(), "no breakpoints are there: the test sees nothing")
    time.sleep(0.5)
    start = time.monotonic()
    t.process.send_signal(kill)
    t.process.wait(20)
    took = time.monotonic() - start
    check(took < 5, f"roletrace took {took:.1f} s to end")
    until(lambda: not f.breakpoints(), 5 - took, "breakpoints gone")
    until(lambda: not bpf.leftovers(before), 5 - took, "BPF objects gone")
    return f, t


def test_l9_sigterm_with_2000_functions():
    f, t = many_while(signal.SIGTERM)
    equal(t.wait().functions != [], True, "functions in the file")
    check(f.ask("quiesce")["truth"]["traced_a000"]["calls"] > 0, "the target lives")
    f.finish()


def test_l9_sigkill_with_2000_functions():
    f, t = many_while(signal.SIGKILL)
    equal(t.process.returncode, -signal.SIGKILL, "end of roletrace")
    before = f.ask("quiesce")["truth"]
    again = Trace(f)
    f.say("go")
    time.sleep(0.3)
    truth = f.ask("quiesce")["truth"]
    calls = {n: {"calls": truth[n]["calls"] - before[n]["calls"]} for n in truth}
    snapshot = again.stop()
    snapshot.exact(calls)
    equal(
        {r["calls"] for r in snapshot.functions if r["name"][:8] in ("traced_a", "traced_b")},
        {calls["traced_a000"]["calls"]},
        "calls of all 2,000 functions",
    )
    snapshot.nothing_lost()
    f.finish()


def test_l9_sigkill_while_attaching_and_detaching():
    """Killed in the middle of writing breakpoints, or of taking them out: none stays."""
    f = Fixture("many")
    f.say("go")
    rng = random.Random(9)
    for i in range(40):
        t = Trace(f, wait=False)
        if i % 2:
            t.wait_attached()
            t.process.send_signal(signal.SIGINT)
            time.sleep(rng.uniform(0, 0.1))
        else:
            time.sleep(rng.uniform(0.02, 0.25))
        t.process.kill()
        t.process.wait()
        until(lambda: not f.breakpoints(), 5, f"breakpoints stay after kill {i}")
    f.ask("quiesce")
    f.finish()


def test_l11_main_thread_gone_before():
    f = Fixture("no_main_thread", "early")
    snapshot, truth = trace(f)
    snapshot.exact(truth)
    equal(snapshot.doc["target"]["ended"], None, "a process without its main thread has not ended")
    f.finish()


def test_l11_main_thread_goes_meanwhile():
    f = Fixture("no_main_thread", "late")
    t = Trace(f)
    f.say("leave")
    until(lambda: not harness.is_alive(f.pid, f.pid), 5, "the main thread ends")
    time.sleep(0.3)
    truth = f.go()
    snapshot = t.stop()
    snapshot.exact(truth)
    equal(snapshot.doc["target"]["ended"], None, "a process without its main thread has not ended")
    f.finish()


def target_ends(how, number, reason, code):
    f = Fixture("traffic", 4, 5, how, number)
    t = Trace(f)
    f.say("go")
    snapshot = t.wait()
    ended = snapshot.doc["target"]["ended"]
    equal((ended["reason"], ended["code"]), (reason, number), "how the target ended")
    check(snapshot.row("traced_step")["calls"] > 100, "calls up to the end")
    for row in snapshot.functions:
        equal(row["unwound"], 0, f"{row['name']}: unwound calls of a process that just ended")
    f.finish(code)


def test_target_exits():
    target_ends("exit", 9, "exit", 9)


def test_target_is_aborted():
    target_ends("signal", int(signal.SIGABRT), "signal", -signal.SIGABRT)


def test_target_is_killed():
    target_ends("signal", int(signal.SIGKILL), "signal", -signal.SIGKILL)


def test_duration_and_intervals():
    """The file is whole at every moment."""
    f = Fixture("traffic", 2, 5)
    t = Trace(f, "-d", "1.5", "-i", "0.05")
    f.say("go")
    seen = []
    while t.process.poll() is None:
        if os.path.exists(t.file):
            seen.append(t.snapshot().doc["window"]["duration_ns"])
        time.sleep(0.01)
    snapshot = t.wait()
    check(len(set(seen)) >= 8 and seen == sorted(seen), f"windows seen: {seen[:20]}")
    equal(os.listdir(os.path.dirname(t.file)), ["trace.json"], "files written")
    check(1.4e9 < snapshot.doc["window"]["duration_ns"] < 2e9, f"window {snapshot.doc['window']}")
    f.ask("quiesce")
    f.finish()


def test_attach_and_detach_under_traffic():
    f = Fixture("traffic", 8, 5)
    f.say("go")
    for _ in range(5):
        t = Trace(f)
        time.sleep(0.3)
        snapshot = t.stop()
        for row in snapshot.functions:
            check(row["calls"] > 100, f"calls: {row}")
            equal(row["unwound"], 0, f"{row['name']}: unwound in a program that unwinds nothing")
        check(
            snapshot.lost["orphan_exits"] <= 2 * 8,
            f"more orphans than calls in flight: {snapshot.lost}",
        )
        snapshot.nothing_lost("orphan_exits")
    f.ask("quiesce")
    f.finish()


def test_two_at_once():
    """Two of us on one target: both see everything, the first to leave harms nobody."""
    f = Fixture("calls")
    a, b = Trace(f), Trace(f)
    truth = f.go()
    a.process.send_signal(signal.SIGINT)
    a.process.wait(10)
    a.snapshot().exact(truth)
    truth = f.go()
    b.stop().exact(truth)
    f.finish()
