# SPDX-License-Identifier: BSD-2-Clause
"""--follow: one process after the other, a file each."""

import json
import os
import shutil
import signal
import subprocess
import time

import harness
from harness import FIXTURES, Fixture, check, equal, scratch, start, until
from snapshot import Snapshot


class Follower:
    """roletrace --follow in a folder of its own."""

    def __init__(self, *args, folder=None, functions="traced_*"):
        self.folder = folder or scratch()
        argv = [harness.ROLETRACE, "--budget", "off", "-f", functions, "--follow", *args]
        self.log = open(os.path.join(scratch(), "log"), "w+")
        self.out = open(os.path.join(scratch(), "out"), "w+")
        self.process = start(
            argv, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.log, cwd=self.folder
        )

    def said(self):
        with open(self.log.name) as f:
            return f.read()

    def wait_for(self, words, count=1):
        until(
            lambda: self.said().count(words) >= count or self.process.poll() is not None,
            15,
            f"{count} times '{words}'; it said {self.said()}",
        )
        check(self.said().count(words) >= count, f"it ended: {self.said()}")

    def stop(self, by=signal.SIGINT, code=0):
        if by:
            self.process.send_signal(by)
        equal(self.process.wait(20), code, f"exit code; it said {self.said()}")
        files = {}
        for name in sorted(os.listdir(self.folder)):
            with open(os.path.join(self.folder, name)) as f:
                files[name] = f.read()
        return files


def exact(text, truth):
    Snapshot(json.loads(text)).exact({n: {**r, "in_flight": 0} for n, r in truth.items()})


def copy_of(name, called):
    path = os.path.join(scratch(), called)
    shutil.copy(os.path.join(FIXTURES, name), path)
    return path


def restarts(follower, exe, finish=True):
    """Three processes one after the other: what each did, by pid."""
    truths = {}
    for i in range(3):
        f = Fixture("calls", exe=exe)
        follower.wait_for("attached to", i + 1)
        truths[f.pid] = f.go()
        if i < 2:
            f.finish()
            follower.wait_for("waiting for", i + 2)
    return f, truths


def test_follow_by_name():
    exe = copy_of("calls", "e2e-followed")
    t = Follower("--name", "e2e-followed")
    t.wait_for("waiting for")
    f, truths = restarts(t, exe)
    files = t.stop()
    equal(set(files), {f"roletrace-e2e-followed-{pid}.json" for pid in truths}, "files")
    for pid, truth in truths.items():
        exact(files[f"roletrace-e2e-followed-{pid}.json"], truth)
    with open(t.out.name) as out:
        equal(out.read().count("e2e-followed (pid "), 3, "reports")
    f.finish()


def test_follow_by_exe_with_named_files():
    """-PID goes before the suffix; what a collector reads stays one file."""
    exe = copy_of("calls", "e2e-followed-exe")
    t = Follower("--exe", exe, "-o", "a.json", "-o", "csv:b.x.csv", "-o", "c.prom")
    t.wait_for("waiting for")
    f, truths = restarts(t, exe)
    files = t.stop()
    names = {f"a-{p}.json" for p in truths} | {f"b.x-{p}.csv" for p in truths} | {"c.prom"}
    equal(set(files), names, "files")
    for pid, truth in truths.items():
        exact(files[f"a-{pid}.json"], truth)
    check(f'pid="{f.pid}"' in files["c.prom"], "the last one's")
    f.finish()


def test_follow_never_overwrites():
    exe = copy_of("calls", "e2e-kept")
    f = Fixture("calls", exe=exe)
    folder = scratch()
    kept = os.path.join(folder, f"x-{f.pid}.json")
    with open(kept, "w") as there:
        there.write("kept")
    t = Follower("--name", "e2e-kept", "-o", "x.json", folder=folder)
    t.wait_for("attached to")
    truth = f.go()
    files = t.stop()
    equal(set(files), {f"x-{f.pid}.json", f"x-{f.pid}-2.json"}, "files")
    equal(files[f"x-{f.pid}.json"], "kept", "the file that was there")
    exact(files[f"x-{f.pid}-2.json"], truth)
    f.finish()


def test_follow_over_an_exec():
    """The same pid, two programs, two files."""
    for how in ("--pid", "--name"):
        f = Fixture("exec", os.path.abspath(os.path.join(FIXTURES, "exec")))
        t = Follower(how, str(f.pid) if how == "--pid" else "exec")
        t.wait_for("attached to")
        f.say("go")
        equal(f.line(), f"ready {f.pid}", "the new program")
        t.wait_for("attached to", 2)
        f.finish()
        files = t.stop(by=None if how == "--pid" else signal.SIGINT)
        first, second = f"roletrace-exec-{f.pid}.json", f"roletrace-exec-{f.pid}-2.json"
        equal(set(files), {first, second}, "files")
        docs = [Snapshot(json.loads(files[n])) for n in (first, second)]
        equal(docs[0].doc["target"]["ended"]["reason"], "exec", "end of the first")
        docs[0].exact(
            {"traced_before": {"calls": 5, "returned": 5}, "traced_execs": {"calls": 1, "returned": 0}}
        )
        docs[1].exact({"traced_before": {"calls": 0}, "traced_execs": {"calls": 0}})


def test_follow_a_command_through_its_shell():
    """What a start script execs is what is meant."""
    exe = os.path.abspath(os.path.join(FIXTURES, "calls"))
    folder = scratch()
    argv = [harness.ROLETRACE, "--no-functions", "--follow", "-o", "x.json", "--"]
    p = start([*argv, os.path.realpath("/bin/sh"), "-c", f"exec {exe}"], cwd=folder,
              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
              stderr=subprocess.PIPE, text=True)
    lines = []
    until(lambda: lines.append(p.stderr.readline()) or "attached" in lines[-1], 10, "attached")
    until(lambda: lines.append(p.stderr.readline()) or "attached" in lines[-1], 10, "again")
    out, err = p.communicate("go\n", timeout=20)
    equal(p.returncode, 0, f"exit code; {lines} {err}")
    docs = []
    for name in os.listdir(folder):
        with open(os.path.join(folder, name)) as f:
            docs.append(json.load(f)["target"])
    ends = sorted((os.path.basename(d["exe"]), d["ended"]["reason"]) for d in docs)
    equal(ends, [("calls", "exit"), (os.path.basename(os.path.realpath("/bin/sh")), "exec")], "ends")


def test_follow_ends_with_its_duration():
    """-d is the time of it all."""
    exe = copy_of("calls", "e2e-follow-d")
    t = Follower("--name", "e2e-follow-d", "-d", "2.5")
    t.wait_for("waiting for")
    f = Fixture("calls", exe=exe)
    t.wait_for("attached to")
    begin = time.monotonic()
    f.finish()
    files = t.stop(by=None)
    check(1.5 < time.monotonic() - begin < 5, f"took {time.monotonic() - begin:.1f} s")
    equal(len(files), 1, "files")


def test_follow_that_nobody_came_for():
    t = Follower("--name", "e2e-nobody")
    t.wait_for("waiting for")
    equal(t.stop(code=3), {}, "files")


def test_follow_goes_on_after_a_build_without_the_functions():
    """The first must be right; a later one that cannot be traced is said and left alone."""
    exe = copy_of("calls", "e2e-builds")
    t = Follower("--name", "e2e-builds", functions="traced_three")
    f = Fixture("calls", exe=exe)
    t.wait_for("attached to")
    f.finish()
    shutil.copy(os.path.join(FIXTURES, "nested"), exe + ".new")
    os.rename(exe + ".new", exe)
    g = Fixture("nested", exe=exe)
    t.wait_for("matches nothing")
    g.finish()
    shutil.copy(os.path.join(FIXTURES, "calls"), exe + ".new")
    os.rename(exe + ".new", exe)
    f = Fixture("calls", exe=exe)
    t.wait_for("attached to", 2)
    truth = f.go()
    files = t.stop(code=2)
    exact(files[f"roletrace-e2e-builds-{f.pid}.json"], {"traced_three": truth["traced_three"]})
    f.finish()
