# SPDX-License-Identifier: BSD-2-Clause
"""Whose samples and waits are: roletrace's own probes are nobody's, a static libc is not the program's own, a
stripped program's code goes by its address."""

import os
import shutil

import elftool
import harness
from checks import check, equal
from harness import FIXTURES, Fixture, Trace, roletrace, scratch
from profiles import Profile


def off_cpu_rows(file):
    """(how, waiting in) of the report's table of waits."""
    text = roletrace("report", file, "--limit", "100", "--width", "140").stdout
    table = text[text.index("Waiting in\n") :].split("\n", 1)[1].partition("\n\n")[0]
    return {(line.split()[4], line.split()[5]) for line in table.splitlines() if not line.startswith("  ")
            or len(line.split()) == 6}


def test_profile_probes_are_no_functions_time():
    """Calls that do next to nothing, each with two traps: what samples find there is the traps."""
    f = Fixture("calls")
    t = Trace(f, "--cpu-profile=997", functions=("traced_*",))
    for _ in range(300):
        f.go()
    snapshot = t.stop()
    f.finish()
    profile = Profile(snapshot)
    probes, selves, wholes = 0, {}, {}
    for s in profile.stacks:
        names = profile.names(s)
        if names[-1] in ("[kernel: breakpoint]", "[kernel: uretprobe]", "[kernel: uprobe]"):
            probes += s["value"]
            continue
        user = [profile.frames[i]["name"] for i in s["frames"] if profile.frames[i]["kind"] != "kernel"]
        if user:
            selves[user[-1]] = selves.get(user[-1], 0) + s["value"]
        for name in set(user):
            wholes[name] = wholes.get(name, 0) + s["value"]
    check(probes > 20, f"samples in probes: {probes} of {profile.doc['count']}")
    equal(profile.doc["probe_samples"], probes, "samples in probes")
    for name in ("traced_three", "traced_fifty", "traced_many", "main"):
        row = next((r for r in snapshot.doc["functions"] if r["name"] == name), None)
        got = (row["cpu"]["samples"], row["cpu"]["self_samples"]) if row else (0, 0)
        equal(got, (wholes.get(name, 0), selves.get(name, 0)), f"samples of {name}")
    report = roletrace("report", t.file).stdout
    row = next((line for line in report.splitlines() if line.endswith("  [probes of roletrace]")), None)
    check(row and abs(float(row.split()[0].rstrip("%")) / 100 - probes / profile.doc["count"]) < 0.01, report)


def test_profile_musl_is_not_the_programs_own():
    exe = os.path.join(FIXTURES, "rust-allocs-musl")
    if not os.path.exists(exe):
        raise harness.Skip("no rustup target x86_64-unknown-linux-musl")
    f = Fixture("allocs", 4, 200_000, exe=exe)
    t = Trace(f, "--no-functions", "--cpu-profile=997", functions=())
    f.ask("churn")
    snapshot = t.stop()
    f.finish()
    of_exe = {fr["name"]: fr["kind"] for fr in Profile(snapshot).frames if fr["module"] == "rust-allocs-musl"}
    own = {name for name, kind in of_exe.items() if kind == "own"}
    check(own and all("allocs::" in name for name in own), f"own: {own}")
    libc = {name for name, kind in of_exe.items() if kind == "lib"}
    check({n for n in libc if "malloc" in n or "free" in n}, f"libc's: {libc}")


def test_profile_c_programs_are_their_own():
    """Also those that are static: what libc's part of them is cannot be told."""
    f = Fixture("calls-static")
    t = Trace(f, "--no-functions", "--cpu-profile=997", functions=())
    for _ in range(2000):
        f.go()
    snapshot = t.stop()
    f.finish()
    kinds = {fr["name"]: fr["kind"] for fr in Profile(snapshot).frames}
    equal(kinds.get("main"), "own", f"{kinds}")


def test_waits_of_a_stripped_program_by_address():
    folder = scratch()
    stripped, debug = elftool.split(os.path.join(FIXTURES, "wakes"), folder)
    os.unlink(debug)
    f = Fixture("wakes", exe=stripped)
    t = Trace(f, "--no-functions", "--off-cpu", functions=())
    f.go()
    t.stop()
    f.finish()
    name = os.path.basename(stripped)
    rows = off_cpu_rows(t.file)
    sleeps = {where for how, where in rows if how == "sleep"}
    check(any(w.startswith(f"[{name}+0x") for w in sleeps), f"rows: {rows}")
    check(len({w for _, w in rows if w.startswith(f"[{name}+0x")}) > 2, f"places: {rows}")
    shutil.rmtree(folder, ignore_errors=True)
