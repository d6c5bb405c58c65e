# SPDX-License-Identifier: BSD-2-Clause
"""What somebody who has never used it would expect: refusals, units, exit codes, places to write
to."""

import json
import os
import re
import subprocess
import time

import harness
from harness import Fixture, Skip, Trace, check, equal, roletrace, scratch, start

URETPROBE = ("--exit", "uretprobe")


def refused(f, *args, why):
    argv = ("--pid", f.pid, "-d", 1, "-o", "json:/dev/null", *URETPROBE, *args)
    done = roletrace(*argv)
    equal(done.returncode, 4, f"exit code: {done.stderr}")
    check(why in done.stderr and "--may-kill-target" in done.stderr, done.stderr)
    check("attached" not in done.stderr, done.stderr)
    equal(f.breakpoints(), [], "breakpoints")


def test_return_probes_are_refused_where_panics_are_caught():
    f = Fixture("panics", "few")
    refused(f, "-f", "panics::*", why="catches panics")
    f.say("go")
    f.line()
    f.finish()


def test_return_probes_are_refused_where_stacks_are_switched():
    f = Fixture("coroutines")
    refused(f, "-f", "traced_*", why="switches stacks")
    f.go()
    f.finish()


def test_return_probes_on_ones_own_risk():
    """Probed is only what no panic goes through."""
    f = Fixture("panics", "few")
    t = Trace(f, *URETPROBE, "--may-kill-target", functions=["panics::fixture::*"])
    check(any("may kill the target" in line for line in t.stderr), t.said())
    f.say("go")
    f.line()
    t.stop()
    f.finish()


def test_list_says_that_return_probes_are_refused():
    exe = os.path.join(harness.FIXTURES, "panics")
    done = roletrace("list", "--exe", exe, *URETPROBE)
    check("return probes are refused here" in done.stdout, done.stdout)
    check("refused here" not in roletrace("list", "--exe", exe).stdout, "with sites, too")


def test_units_of_time_and_percent():
    f = Fixture("calls")
    for duration, least, most in (("300ms", 0.3, 0.9), ("0.005m", 0.3, 0.9), ("1s", 1, 1.6)):
        file = os.path.join(scratch(), "x.json")
        argv = ("--pid", f.pid, "-d", duration, "--budget", "5%", "-f", "traced_*", "-o", file)
        done = roletrace(*argv)
        equal(done.returncode, 0, done.stderr)
        with open(file) as doc:
            got = json.load(doc)
        took = got["window"]["duration_ns"] / 1e9
        check(least <= took <= most, f"-d {duration} took {took} s")
        equal(got["overhead"]["budget_ratio"], 0.05, "budget")
    f.finish()


def test_other_units_are_errors():
    for args in (
        ("-d", "5min"), ("-d", "1 s"), ("-d", "s"), ("-d", "0ms"), ("-d", "-1m"), ("-d", "1sm"),
        ("-i", "1ms"), ("--stall", "1q"), ("--budget", "5 %"), ("--budget", "5%%"),
        ("--budget", "%"), ("--budget", "0%"),
    ):  # fmt: skip
        done = roletrace("--pid", 1, *args, "-o", "json:/dev/null")
        equal(done.returncode, 2, f"exit code of {args}: {done.stderr}")
        check(args[1] in done.stderr, done.stderr)


def test_commands_that_cannot_be_started():
    plain = os.path.join(scratch(), "plain")
    with open(plain, "w") as f:
        f.write("not a program\n")
    os.chmod(plain, 0o644)
    for command, code in (("/nonexistent/program", 127), ("no-such-command", 127), (plain, 126)):
        done = roletrace("-o", "json:/dev/null", "--", command)
        equal(done.returncode, code, f"exit code of {command}: {done.stderr}")
        check(command in done.stderr, done.stderr)


def test_what_a_command_prints_does_not_spoil_the_snapshot():
    argv = ("--no-functions", "-o", "-", "--", os.path.realpath("/bin/sh"), "-c")
    done = roletrace(*argv, "echo said by the command")
    equal(done.returncode, 0, done.stderr)
    equal(json.loads(done.stdout)["target"]["ended"]["reason"], "exit", "a snapshot")
    check("said by the command" in done.stderr, done.stderr)
    done = roletrace("-o", "json:/dev/null", *argv[:1], *argv[3:], "echo said by the command")
    check("said by the command" in done.stdout, "where nobody else needs it")


def unwritable(path):
    f = Fixture("calls")
    began = time.monotonic()
    done = roletrace("--pid", f.pid, "-d", 20, "-f", "traced_*", "-o", path)
    equal(done.returncode, 1, f"exit code: {done.stderr}")
    check(path in done.stderr and "attached" not in done.stderr, done.stderr)
    check(time.monotonic() - began < 10, "only after the trace")
    f.finish()


def test_files_that_cannot_be_written_are_found_at_once():
    for path in ("/proc/x.json", "/sys/x.json", "/nonexistent/x.json"):
        unwritable(path)
    folder = scratch()
    os.mkdir(os.path.join(folder, "x.json"))
    unwritable(os.path.join(folder, "x.json"))


def test_read_only_mounts_are_found_at_once():
    folder = scratch()
    command = f"mount -t tmpfs -o ro none {folder} && exec {harness.ROLETRACE} -o {folder}/x.json"
    harness.need_namespaces()
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{command} -- /bin/true"], capture_output=True, text=True
    )
    if "Read-only" not in done.stderr and "mount" in done.stderr:
        raise Skip(done.stderr.strip())
    equal(done.returncode, 1, f"exit code: {done.stderr}")
    check("Read-only file system" in done.stderr and "attached" not in done.stderr, done.stderr)


def test_trying_leaves_the_folder_as_it_was():
    folder = scratch()
    old = os.path.join(folder, "old.json")
    with open(old, "w") as f:
        f.write("old")
    done = roletrace("--pid", 4194000, "-o", old, "-o", os.path.join(folder, "new.csv"))
    equal(done.returncode, 3, done.stderr)
    equal(os.listdir(folder), ["old.json"], "files")
    with open(old) as f:
        equal(f.read(), "old", "content")


def test_which_of_several_is_said():
    name = "e2e-of-several"
    exe = os.path.join(scratch(), name)
    os.link(os.path.realpath(os.path.join(harness.FIXTURES, "calls")), exe)
    first = Fixture("calls", exe=exe)
    time.sleep(0.1)  # an age is known in hundredths of a second
    second = Fixture("calls", exe=exe)
    done = roletrace("--name", name, "-d", "100ms", "-f", "traced_*", "-o", "json:/dev/null")
    equal(done.returncode, 0, done.stderr)
    check(f"2 processes of name '{name}': taking the youngest, {second.pid}" in done.stderr, done.stderr)
    second.finish()
    done = roletrace("--name", name, "-d", "100ms", "-f", "traced_*", "-o", "json:/dev/null")
    check("processes of name" not in done.stderr, done.stderr)
    first.finish()


def test_waiting_is_not_limited_and_says_so():
    argv = [harness.ROLETRACE, "--name", "e2e-never-there", "-d", "200ms", "-o", "json:/dev/null"]
    process = start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    check("--duration counts from the attach" in process.stderr.readline(), "not said")
    time.sleep(1)
    equal(process.poll(), None, "it ended")


def test_too_short_a_look_is_said_before_it():
    f = Fixture("blocks", 2, 3000)
    t = Trace(f, "--memory", "stacks", "-d", "30s", functions=())
    check(not any("too short a look" in line for line in t.stderr), t.said())
    t.stop()
    t = Trace(f, "--memory", "stacks", "-d", "19.5", functions=())
    check(any("too short a look" in line for line in t.stderr), t.said())
    t.stop()
    f.finish()


def rust_program(name, text):
    folder = scratch()
    source = os.path.join(folder, "x.rs")
    with open(source, "w") as f:
        f.write(text)
    exe = os.path.join(folder, name)
    argv = ["rustc", "--edition=2021", "-O", "--crate-name", name, "-o", exe, source]
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise Skip(f"rustc: {done.stderr}")
    return exe


def test_a_program_called_like_a_part_of_std():
    work = "#[inline(never)] fn work(n: u64) -> Vec<u64> { std::hint::black_box((0..n).collect()) }"
    exe = rust_program("alloc", work + "fn main() { println!(\"{}\", work(9).len()); }")
    lines = roletrace("list", "--exe", exe).stdout.splitlines()
    functions = [line.split()[-1] for line in lines if re.match(r"(fn|async) ", line)]
    equal(functions, ["alloc::main", "alloc::work"], "functions")
    check(not any("no Rust crates" in line for line in lines), lines[-1])


def test_the_hint_is_said_once():
    f = Fixture("calls")
    done = roletrace("--pid", f.pid, "-d", "100ms", "-o", "json:/dev/null")
    hint = "no Rust crates in the file"
    equal((done.stderr + done.stdout).count(hint), 1, f"hints: {done.stderr} {done.stdout}")
    f.finish()
