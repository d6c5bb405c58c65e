# SPDX-License-Identifier: BSD-2-Clause
"""Several --pid at once: a tracer for each, a file each, the worst exit code."""

import glob
import json
import os
import signal
import subprocess
import time

import bpf
import harness
from harness import Fixture, check, equal, roletrace, scratch, start, until
from snapshot import Snapshot


def run_in(folder):
    """Processes whose working folder it is."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cwd"):
        try:
            if os.readlink(path) == folder:
                found.append(path)
        except OSError:
            pass
    return found


class Several:
    def __init__(self, pids, *args, functions="traced_*"):
        self.folder = scratch()
        argv = [harness.ROLETRACE, "--budget", "off", "-f", functions, *args]
        for pid in pids:
            argv += ["--pid", str(pid)]
        self.log = open(os.path.join(scratch(), "log"), "w+")
        self.process = start(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.log,
            cwd=self.folder,
            text=True,
        )

    def said(self):
        with open(self.log.name) as f:
            return f.read()

    def wait_for(self, words, count):
        until(lambda: self.said().count(words) >= count, 20, f"'{words}'; it said {self.said()}")

    def stop(self, by=signal.SIGINT, code=0):
        if by:
            self.process.send_signal(by)
        out, _ = self.process.communicate(timeout=20)
        equal(self.process.returncode, code, f"exit code; it said {self.said()}")
        return out

    def snapshot(self, name):
        with open(os.path.join(self.folder, name)) as f:
            return Snapshot(json.load(f))


def test_several_pids():
    for by in (signal.SIGINT, signal.SIGTERM):
        fixtures = [Fixture("calls"), Fixture("nested"), Fixture("calls")]
        t = Several(f.pid for f in fixtures)
        t.wait_for("attached to", 3)
        fixtures[0].go()  # once more than the third
        truths = [f.go() for f in fixtures]
        out = t.stop(by)
        equal(len(os.listdir(t.folder)), 3, f"files: {os.listdir(t.folder)}")
        heads = []
        for f, truth in zip(fixtures, truths):
            name = os.path.basename(f.exe)
            t.snapshot(f"roletrace-{name}-{f.pid}.json").exact(truth)
            heads.append(out.index(f"{name} (pid {f.pid})"))
            check(f"roletrace[{f.pid}]: attached to {f.pid}" in t.said(), t.said())
            equal(f.breakpoints(), [], "breakpoints")
            f.finish()
        # one whole report after the other
        for start_at in heads:
            rest = out[start_at:]
            end = min([h - start_at for h in heads if h > start_at], default=len(rest))
            equal(rest[:end].count("Probe floor"), 1, f"a whole report each: {out}")


def test_several_with_named_files():
    a, b = Fixture("calls"), Fixture("calls")
    t = Several((a.pid, b.pid), "-o", "x.json", "-o", "y.prom", "-o", "z.calls.pb.gz")
    t.wait_for("attached to", 2)
    truth = a.go()
    t.stop()
    names = {f"{stem}-{f.pid}{end}" for f in (a, b) for stem, end in (("x", ".json"), ("y", ".prom"), ("z", ".calls.pb.gz"))}
    equal(set(os.listdir(t.folder)), names, "files")
    t.snapshot(f"x-{a.pid}.json").exact(truth)
    t.snapshot(f"x-{b.pid}.json").exact({n: {"calls": 0} for n in truth})
    a.finish()
    b.finish()


def test_several_of_which_one_is_not_there():
    """The others are traced all the same; the exit code tells."""
    gone = Fixture("calls")
    gone.finish()
    f = Fixture("calls")
    t = Several((gone.pid, f.pid))
    t.wait_for("attached to", 1)
    t.wait_for(f"no process with pid {gone.pid}", 1)
    truth = f.go()
    t.stop(code=3)
    t.snapshot(f"roletrace-calls-{f.pid}.json").exact(truth)
    f.finish()


def test_several_end_one_by_one():
    a, b = Fixture("calls"), Fixture("calls")
    t = Several((a.pid, b.pid))
    t.wait_for("attached to", 2)
    a.finish()
    t.wait_for(f"wrote ./roletrace-calls-{a.pid}.json", 1)
    truth = b.go()
    b.finish()
    t.stop(by=None)
    t.snapshot(f"roletrace-calls-{b.pid}.json").exact({n: {**r, "in_flight": 0} for n, r in truth.items()})


def test_several_sigkill_of_the_parent():
    """The tracers end too, and leave nothing; their files are written."""
    fixtures = [Fixture("calls"), Fixture("calls")]
    before = bpf.ids()
    t = Several(f.pid for f in fixtures)
    t.wait_for("attached to", 2)
    check(all(f.breakpoints() for f in fixtures), "no breakpoints: the test sees nothing")
    with open(f"/proc/{t.process.pid}/task/{t.process.pid}/children") as c:
        children = [int(x) for x in c.read().split()]
    equal(len(children), 2, "tracers")
    truths = [f.go() for f in fixtures]
    t.process.kill()
    t.process.wait()
    until(lambda: not any(f.breakpoints() for f in fixtures), 5, "breakpoints gone")
    until(lambda: not any(os.path.exists(f"/proc/{c}") for c in children), 5, "tracers gone")
    until(lambda: not bpf.leftovers(before), 5, "BPF objects gone")
    for f, truth in zip(fixtures, truths):
        t.snapshot(f"roletrace-calls-{f.pid}.json").exact(truth)
        f.finish()


def test_several_sigkill_while_attaching():
    fixtures = [Fixture("calls"), Fixture("calls")]
    for delay in (0.02, 0.08, 0.15, 0.2, 0.25, 0.3):
        t = Several(f.pid for f in fixtures)
        time.sleep(delay)
        t.process.kill()
        t.process.wait()
        until(lambda: not run_in(t.folder), 5, f"tracers gone after a kill at {delay} s")
        check(not any(f.breakpoints() for f in fixtures), f"probes left after a kill at {delay} s")
    for f in fixtures:
        f.go()
        f.finish()


def test_several_usage():
    f = Fixture("calls")
    for args, says in (
        (("--pid", f.pid, "--pid", f.pid), "given twice"),
        (("--pid", f.pid, "--pid", 1, "-o", "-"), "a file each"),
        (("list", "--pid", f.pid, "--pid", 1), "one --pid"),
    ):
        done = roletrace(*args)
        equal(done.returncode, 2, f"exit code of {args}: {done.stderr}")
        check(says in done.stderr, done.stderr)
    f.finish()
