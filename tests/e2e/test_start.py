# SPDX-License-Identifier: BSD-2-Clause
"""Other ways to a process than its pid: starting it, waiting for it."""

import json
import os
import shutil
import signal
import subprocess
import time

import harness
from harness import Fixture, check, equal, scratch, start, until
from snapshot import Snapshot


def started(*command, functions="traced_*"):
    file = os.path.join(scratch(), "trace.json")
    argv = [harness.ROLETRACE, "--budget", "off", "-f", functions, "-o", f"json:{file}", "--"]
    return file, start(
        [*argv, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_command_from_its_first_instruction():
    file, process = started(os.path.join(harness.FIXTURES, "calls"))
    out, err = process.communicate("go\n", timeout=30)
    equal(process.returncode, 0, f"exit code; it said {err}")
    truth = next(json.loads(line) for line in out.splitlines() if line.startswith("{"))["truth"]
    with open(file) as f:
        snapshot = Snapshot(json.load(f))
    snapshot.exact({name: {**row, "in_flight": 0} for name, row in truth.items()})
    snapshot.nothing_lost()
    equal(snapshot.doc["target"]["ended"]["reason"], "exit", "how the target ended")


def test_command_whose_libraries_are_not_mapped_yet():
    """At its first instruction there is no libc: the loader maps it under our eyes."""
    exe = os.path.join(harness.FIXTURES, "uses_versions")
    file, process = started(exe, functions="libversions.so:traced_plain")
    out, err = process.communicate("go\n", timeout=30)
    equal(process.returncode, 0, f"exit code; it said {err}")
    check("not mapped yet" in err, err)
    truth = next(json.loads(line) for line in out.splitlines() if line.startswith("{"))["truth"]
    name = "libversions.so:traced_plain"
    with open(file) as f:
        Snapshot(json.load(f)).exact({name: truth[name]})


def test_command_passes_its_exit_code_and_signals():
    for script, by, code in (
        ("exit 7", None, 7),
        ("trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done", signal.SIGTERM, 9),
        ("kill -KILL $$", None, 128 + signal.SIGKILL),
    ):
        shell = os.path.realpath("/bin/sh")
        file = os.path.join(scratch(), "x.json")
        argv = [harness.ROLETRACE, "--no-functions", "-o", f"json:{file}", "--", shell, "-c", script]
        process = start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if by:
            equal(process.stdout.readline(), "up\n", "what the child said")
            process.send_signal(by)
        out, err = process.communicate(timeout=30)
        equal(process.returncode, code, f"exit code of '{script}'; it said {err}")


def waited_for(*args, exe):
    file = os.path.join(scratch(), "trace.json")
    argv = [harness.ROLETRACE, "--budget", "off", "-f", "traced_*", "-o", f"json:{file}", *args]
    process = start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    check("waiting" in process.stderr.readline(), "it does not say that it waits")
    time.sleep(0.2)
    f = Fixture("calls", exe=exe)
    until(lambda: f.breakpoints(), 10, "attached")
    until(lambda: "attached to" in process.stderr.readline(), 10, "said so")
    truth = f.go()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    equal(process.returncode, 0, "exit code")
    with open(file) as doc:
        Snapshot(json.load(doc)).exact(truth)
    f.finish()


def test_name_and_exe_are_waited_for():
    exe = os.path.join(scratch(), "e2e-waited-for")
    shutil.copy(os.path.join(harness.FIXTURES, "calls"), exe)
    waited_for("--name", "e2e-waited-for", exe=exe)
    waited_for("--exe", exe, exe=exe)
