# SPDX-License-Identifier: BSD-2-Clause
"""B*: bookkeeping under stress, and refusals that name what is missing."""

import json
import os
import re
import shutil
import signal
import time

import harness
from harness import Fixture, Trace, check, close, equal, scratch, trace


def test_b1_threads_that_end_inside_a_call():
    f = Fixture("thread_deaths", 20_000)
    snapshot, truth = trace(f)
    snapshot.exact({name: {**row, "in_flight": 0} for name, row in truth.items()})
    close(snapshot.row("traced_after")["p50_ns"], 2_100_000, 0.1, "p50 afterwards")
    snapshot.nothing_lost()
    f.finish()


def test_b2_stopped_daemon_loses_nothing():
    f = Fixture("traffic", 8, 5)
    t = Trace(f, "-i", "0.5")
    f.say("go")
    time.sleep(0.5)
    t.process.send_signal(signal.SIGSTOP)
    time.sleep(5)
    t.process.send_signal(signal.SIGCONT)
    time.sleep(0.5)
    truth = f.ask("quiesce")["truth"]
    snapshot = t.stop()
    snapshot.exact({name: {**row, "in_flight": 0} for name, row in truth.items()})
    snapshot.nothing_lost()
    f.finish()


def test_breaker_sheds_what_is_too_dear():
    """A hot function loses its probes within the second; the file says so, the target goes on."""
    f = Fixture("traffic", 2, 2000)
    t = Trace(f, budget="2")
    f.say("go")
    time.sleep(1.5)
    begun = len(f.breakpoints())
    snapshot = t.stop()
    shed = [s["name"] for s in snapshot.doc["overhead"]["shed"]]
    check("traced_step" in shed, f"shed: {snapshot.doc['overhead']}")
    check(begun < 4, f"breakpoints in the target after a second of too much: {begun}")
    equal(snapshot.doc["health"]["status"], "degraded", f"health {snapshot.doc['health']}")
    check(snapshot.doc["health"]["reasons"], "health: no reasons")
    truth = f.ask("quiesce")["truth"]
    check(
        snapshot.row("traced_step")["calls"] < truth["traced_step"]["calls"], "calls seen and made"
    )
    f.finish()


def test_outputs():
    """The default file is named after the process; json:- leaves standard output to the data."""
    f = Fixture("calls")
    directory = scratch()
    done = harness.roletrace("--pid", f.pid, "-f", "traced_*", "-d", "0.5", cwd=directory)
    equal(done.returncode, 0, f"exit code: {done.stderr}")
    equal(os.listdir(directory), [f"roletrace-calls-{f.pid}.json"], "files written")
    done = harness.roletrace(
        "--pid", f.pid, "-f", "traced_*", "-d", "0.5", "-o", "json:-", cwd=directory
    )
    harness.Snapshot(json.loads(done.stdout))
    f.finish()


def refused(what, *command):
    """Exit code 4, one line that names what is missing, nothing written, nothing attached."""
    f = Fixture("calls")
    program = os.path.join(scratch(), "roletrace")
    shutil.copy(harness.ROLETRACE, program)
    os.chmod(os.path.dirname(program), 0o755)
    file = os.path.join(scratch(), "x.json")
    os.chmod(os.path.dirname(file), 0o777)
    argv = [
        *command,
        program,
        "--pid",
        str(f.pid),
        "-f",
        "traced_*",
        "-o",
        f"json:{file}",
        "-d",
        "1",
    ]
    done = harness.start(argv, stderr=-1, stdout=-1, text=True)
    out, err = done.communicate(timeout=20)
    equal(done.returncode, 4, f"exit code; it said: {err}")
    lines = err.strip().splitlines()
    equal(len(lines), 1, f"lines of the refusal: {err}")
    check(re.search(what, lines[0]), f"'{what}' is not named: {lines[0]}")
    check(not os.path.exists(file), "a file was written")
    f.go()
    f.finish()


def test_b5_without_root():
    refused(
        "CAP_|root",
        "setpriv",
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        "--inh-caps=-all",
    )


def test_b5_without_cap_bpf():
    refused("CAP_BPF", "setpriv", "--bounding-set", "-bpf,-sys_admin", "--inh-caps=-all")


def test_b5_without_cap_perfmon():
    refused("CAP_PERFMON", "setpriv", "--bounding-set", "-perfmon,-sys_admin", "--inh-caps=-all")


def hidden(path):
    """A command prefix: its own mount namespace, in which path is gone."""
    return "unshare", "-m", "sh", "-c", f'mount --bind /dev/null {path} && exec "$0" "$@"'


def test_b5_btf_hidden():
    harness.need_namespaces()
    refused("BTF", *hidden("/sys/kernel/btf/vmlinux"))


def test_b5_paranoid_and_no_tracefs():
    """Neither is needed: no perf event is opened, no tracefs file read."""
    path = "/proc/sys/kernel/perf_event_paranoid"
    with open(path) as file:
        before = file.read()
    f = Fixture("calls")
    try:
        with open(path, "w") as file:
            file.write("3")
        snapshot, truth = trace(f)
        snapshot.exact({name: {**row, "in_flight": 0} for name, row in truth.items()})
    finally:
        with open(path, "w") as file:
            file.write(before)
    f.finish()


def test_check_says_what_the_machine_can_do():
    done = harness.roletrace("check")
    equal(done.returncode, 0, f"exit code of check: {done.stdout}{done.stderr}")
    for word in ("kernel", "BTF", "uprobe_multi"):
        check(word.lower() in done.stdout.lower(), f"check does not tell of {word}: {done.stdout}")


def usage_error(*args):
    directory = scratch()
    done = harness.roletrace(*args, cwd=directory)
    equal(done.returncode, 2, f"exit code of {args}: {done.stderr}")
    check(done.stderr.strip(), f"{args}: no word why")
    equal(os.listdir(directory), [], f"{args}: files written")


def test_unknown_input_is_no_guess():
    f = Fixture("calls")
    pid = f.pid
    for args in (
        ["--pid"],
        ["--pid", "zero"],
        ["--pid", "-3"],
        ["--pid", f"{pid}x"],
        ["--nonsense"],
        ["--pid", pid, "--exit", "magic"],
        ["--pid", pid, "-d", "-1"],
        ["--pid", pid, "-d", "1s5"],
        ["--pid", pid, "-i", "0.001"],
        ["--pid", pid, "--budget", "lots"],
        ["--pid", pid, "-o", "nonsense:x"],
        ["--pid", pid, "-o", "x.unknown"],
        ["--pid", pid, "-f", "no_such_function"],
        ["list"],
    ):
        usage_error(*args)
    equal(f.breakpoints(), [], "breakpoints")
    f.finish()
    done = harness.roletrace("--pid", f.pid, "-d", "1", cwd=scratch())
    equal(done.returncode, 3, f"exit code for a process that is gone: {done.stderr}")
