# SPDX-License-Identifier: BSD-2-Clause
"""CPU and off-CPU profiles: shares that the target itself measured, whole stacks in any kind of
build, nothing wrong when the tables are too small. B3, P11, T7, L12."""

import json
import os
import shutil
import time

import elftool
from checks import check, close, equal, until
from harness import FIXTURES, Fixture, Trace, roletrace, scratch
from profiles import STOP_ANYWHERE, Profile, found_all, gdb_stacks

CPU = ("--no-functions", "--cpu-profile=997")
PATHS = {
    "leaf_plain": ("work", "outer_plain", "middle_plain", "leaf_plain"),
    "leaf_recursion": ("work", *["recursion"] * 21, "leaf_recursion"),
    "host_of_inlined": ("work", "host_of_inlined"),
    "leaf_tail_called": ("work", "leaf_tail_called"),
    "leaf_library": ("work", "entry_library", "leaf_library"),
    "leaf_variable": ("work", "leaf_variable"),
    "leaf_edge": ("work", "edge_caller", "leaf_edge"),
    "leaf_handler": ("work", "interrupted", "on_signal", "leaf_handler"),
}


def burn(exe, *args, paths=PATHS):
    """The profile of a run, its shares compared with what each leaf says that it burnt."""
    f = Fixture("burns", *args, exe=exe)
    t = Trace(f, *CPU, functions=())
    f.say("go")
    truth = json.loads(f.line())["cpu_ns"]
    snapshot = t.stop()
    f.finish()
    profile = Profile(snapshot)
    total = sum(truth.values())
    # what the target used before and behind the burning is little
    close(profile.doc["count"] / 997, total / 1e9, 0.08, "seconds of CPU")
    for leaf, ns in truth.items():
        if leaf in paths:
            got = profile.share(*paths[leaf])
            check(abs(got - ns / total) < 0.03, f"{leaf}: {got:.3f}, truth {ns / total:.3f}")
    return profile


def test_profile_shares_are_true():
    profile = burn(None)
    # a library is opened meanwhile: until its rows are there, some ms, samples in it end there
    check(
        set(profile.doc["truncated"]) <= {"no_unwind_rows"} and sum(profile.doc["truncated"].values()) <= 3,
        f"truncated {profile.doc['truncated']}",
    )
    check(profile.named() > 0.99 or not profile.has_libc_names(), f"named: {profile.named()}")
    roots = {profile.names(s)[0] for s in profile.stacks}
    # a library without its debug file has no name for where threads begin
    check(roots <= {"clone3", "_start"} or "+0x" in "".join(roots), f"roots {roots}")


def builds():
    folder = os.path.join(FIXTURES, "burns-of")
    return sorted(os.path.join(folder, name) for name in os.listdir(folder))


def test_profile_builds():
    """gcc and clang, optimised and not, PIE and not, static, with frame pointers and without."""
    names = builds()
    check(len(names) >= 7, f"built: {names}")
    for exe in names:
        paths = dict(PATHS)
        if "-O0" in exe:
            paths["leaf_tail_called"] = ("work", "tail_calling", "leaf_tail_called")
        try:
            profile = burn(exe, paths=paths)
            check(profile.whole() >= 0.99, f"whole stacks: {profile.doc['truncated']}")
        except AssertionError as e:
            raise type(e)(f"{os.path.basename(exe)}: {e}") from None


test_profile_builds.seconds = 300


def test_profile_inlined():
    """With debug information inlined functions are frames too, and said to be inlined."""
    exe = os.path.join(FIXTURES, "burns-of/gcc-debug")
    profile = burn(exe, paths={"host_of_inlined": ("work", "host_of_inlined", "inlined", "spin")})
    marked = {f["name"] for f in profile.frames if f.get("inlined")}
    check({"inlined", "spin"} <= marked, f"inlined: {marked}")
    check(not marked & {"work", "host_of_inlined", "leaf_plain"}, f"not inlined: {marked}")


def test_profile_stripped():
    """Names come from the debug file beside it; without one stacks are whole all the same."""
    folder = scratch()
    stripped, debug = elftool.split(os.path.join(FIXTURES, "burns-of/gcc-debug"), folder)
    shutil.copy(os.path.join(FIXTURES, "libburn.so"), folder)
    burn(stripped)
    os.unlink(debug)
    profile = burn(stripped, paths={})
    check(profile.whole() > 0.99, f"whole: {profile.doc['truncated']}")
    own = {f["name"] for f in profile.frames if f["module"] == os.path.basename(stripped)}
    check(own and all(n.startswith("[") and "+0x" in n for n in own), f"names: {own}")


def rust(panic):
    f = Fixture(f"burns-rust-{panic}")
    t = Trace(f, *CPU, functions=())
    f.say("go")
    truth = json.loads(f.line())["cpu_ns"]
    profile = Profile(t.stop())
    f.finish()
    check(profile.whole() >= 0.99, f"whole stacks: {profile.doc['truncated']}")
    check(profile.named() >= 0.99 or not profile.has_libc_names(), f"names: {profile.named()}")
    paths = {
        "plain": ("burns::generic", "burns::leaf_plain"),
        "dynamic": ("<burns::Dynamic as burns::Burner>::burn",),
        "sorting": ("burns::sorting", "burns::leaf_compare"),
    }
    total = sum(truth.values())
    for what, ns in truth.items():
        got = profile.share(*paths[what])
        check(abs(got - ns / total) < 0.03, f"{what}: {got:.3f}, truth {ns / total:.3f}")
    kinds = {f["name"]: f["kind"] for f in profile.frames}
    equal(kinds["burns::leaf_plain"], "own", "kind of the program's own")
    check("std" in kinds.values(), f"std's frames: {kinds}")


def test_profile_rust():
    rust("unwind")


def test_profile_rust_without_unwinding():
    rust("abort")


def test_profile_own_thread_only():
    """B: another process of the same executable burns too; its samples are not in."""
    other = Fixture("burns", 4)
    other.say("go")
    f = Fixture("burns")
    t = Trace(f, *CPU, functions=())
    time.sleep(1)
    profile = Profile(t.stop())
    check(profile.doc["count"] < 20, f"samples of an idle target: {profile.doc['count']}")
    f.finish()


def test_profile_off_cpu():
    f = Fixture("burns")
    f.run_undisturbed()  # a thread that wakes up and finds no CPU free is off CPU for longer
    t = Trace(f, "--no-functions", "--off-cpu", functions=())
    begin = time.monotonic()
    f.say("go")
    truth = json.loads(f.line())["cpu_ns"]
    time.sleep(0.5)
    snapshot = t.stop()
    window_ns = snapshot.doc["window"]["duration_ns"]
    f.finish()
    profile = Profile(snapshot, "off_cpu")
    wait = {name: 0 for name in ("nanosleep", "fixture__await", "__pthread_clockjoin_ex")}
    for s in profile.stacks:
        names = profile.names(s)
        check(names[-1].startswith("[kernel"), f"a wait is in the kernel: {names}")
        for name in wait:
            if name in names:
                wait[name] += s["value"]
    close(wait["nanosleep"], 200e6, 0.03, "asleep")
    join = next((v for k, v in wait.items() if "join" in k), 0)
    if join:  # a name of the library's own
        check(join > 0.95 * sum(truth.values()), f"joining: {join}, truth {sum(truth.values())}")
    # the main thread waits nearly all the time; the last wait still goes on
    main = sum(s["value"] for s in profile.stacks if "main" in profile.names(s))
    close(main, window_ns, 0.05, f"waits of the main thread ({time.monotonic() - begin:.1f} s)")


def test_profile_off_cpu_min():
    f = Fixture("burns")
    t = Trace(f, "--no-functions", "--off-cpu-min", 400000, functions=())
    f.say("go")
    f.line()
    profile = Profile(t.stop(), "off_cpu")
    f.finish()
    check(not any("nanosleep" in profile.names(s) for s in profile.stacks), "200 ms are too short")
    check(any("main" in profile.names(s) for s in profile.stacks), "the join is long enough")


def test_profile_small_stack_table():
    """B3: stacks that find no room are counted as lost; those kept are right."""
    f = Fixture("burns")
    t = Trace(f, *CPU, "--profile-stacks", 4, functions=())
    f.say("go")
    truth = json.loads(f.line())["cpu_ns"]
    profile = Profile(t.stop())
    f.finish()
    check(profile.doc["lost"]["stack_not_kept"] > 0, f"lost: {profile.doc['lost']}")
    close(profile.doc["count"] / 997, sum(truth.values()) / 1e9, 0.08, "all samples")
    leaves = set(PATHS)
    for s in profile.stacks:
        names = profile.names(s)
        leaf = [n for n in names if n in leaves]
        if leaf and "work" in names:
            path = [n for n in names if n in PATHS[leaf[-1]]]
            equal(tuple(path), PATHS[leaf[-1]], f"the path of {leaf[-1]}")


STEPS = 400


def test_profile_agrees_with_gdb_at_each_instruction():
    """P11: prologues, epilogues, tail calls, the way into a library and through a PLT. gdb steps
    instruction by instruction: at each the thread stops, which is a wait with a stack of its own."""
    f = Fixture("burns")
    t = Trace(f, "--no-functions", "--off-cpu", functions=())
    body = f"""
for where in ("*outer_plain", "*middle_plain", "*leaf_plain", "*recursion", "*tail_calling",
              "*leaf_variable", "*interrupted", "*on_signal"):
    gdb.execute("tbreak " + where, to_string=True)
gdb.execute("set scheduler-locking step", to_string=True)
begin()
while gdb.breakpoints():
    gdb.execute("continue", to_string=True)
    for n in range({STEPS // 4}):
        # not at the breakpoint itself: the thread stopped behind it, gdb puts it back
        gdb.execute("stepi", to_string=True)
        note()
gdb.execute("delete", to_string=True)
"""
    theirs = gdb_stacks(f.pid, body, begin=lambda: f.say("go"))
    f.line()
    ours = Profile(t.stop(), "off_cpu").without_kernel()
    f.finish()
    found_all(theirs, ours, at_least=STEPS)


def test_profile_agrees_with_gdb_anywhere():
    f = Fixture("burns", 10)
    t = Trace(f, "--no-functions", "--off-cpu", functions=())
    f.say("go")
    theirs = gdb_stacks(f.pid, "STOPS = 60" + STOP_ANYWHERE, 90)
    ours = Profile(t.stop(), "off_cpu").without_kernel()
    found_all(theirs, ours, at_least=100)


def functions(*args):
    f = Fixture("burns")
    t = Trace(f, "--cpu-profile=997", *args, functions=("leaf_*", "recursion", "work"))
    f.say("go")
    truth = json.loads(f.line())["cpu_ns"]
    snapshot = t.stop()
    f.finish()
    profile = Profile(snapshot)
    total, count = sum(truth.values()), profile.doc["count"]
    check(profile.whole() > 0.99, f"whole under probes: {profile.doc['truncated']}")
    for leaf in ("leaf_plain", "leaf_recursion", "leaf_tail_called", "leaf_handler"):
        cpu = snapshot.row(leaf)["cpu"]
        check(abs(cpu["samples"] / count - truth[leaf] / total) < 0.03, f"{leaf}: {cpu}, of {count}")
        check(cpu["self_samples"] > 0.7 * cpu["samples"], f"{leaf}: {cpu}")
    cpu = snapshot.row("recursion")["cpu"]
    share = cpu["samples"] / count
    check(abs(share - truth["leaf_recursion"] / total) < 0.03, f"recursion: {cpu} of {count}")
    check(cpu["self_samples"] < 0.02 * count, f"recursion burns nothing itself: {cpu}")
    check(snapshot.row("work")["cpu"]["samples"] > 0.95 * count, "all is in work")
    for leaf, path in PATHS.items():
        got = profile.share(*path)
        check(abs(got - truth[leaf] / total) < 0.03, f"{path}: {got:.3f} of {truth}")


def test_profile_of_functions():
    """Samples of the functions that are probed too; a recursive one has each sample once."""
    functions()


def test_profile_rows_of_what_is_not_probed():
    """Functions that were inlined, not chosen, or are a library's have rows by their samples."""
    f = Fixture("burns", exe=os.path.join(FIXTURES, "burns-of/gcc-debug"))
    t = Trace(f, "--cpu-profile=997", functions=("leaf_plain", "host_of_inlined"))
    f.say("go")
    truth = json.loads(f.line())["cpu_ns"]
    snapshot = t.stop()
    report = roletrace("report", t.file).stdout
    f.finish()
    total, cpu = sum(truth.values()), snapshot.doc["profiles"]["cpu"]
    rows = {r["name"]: r for r in snapshot.unprobed}
    # what it is called, whether it was inlined, whose time it is
    wanted = {
        "inlined": (True, "host_of_inlined"),
        "leaf_recursion": (False, "leaf_recursion"),
        "recursion": (False, "leaf_recursion"),
        "leaf_tail_called": (False, "leaf_tail_called"),
        "libburn.so:leaf_library": (False, "leaf_library"),
    }
    for name, (inlined, of) in wanted.items():
        check(name in rows, f"{name} has no row: {sorted(rows)}")
        got = rows[name]["cpu"]
        equal(got["inlined_samples"], got["samples"] if inlined else 0, f"{name}: inlined")
        low, high = got["time_interval_ns"]
        # a tick may be late: another half per cent
        check(low * 0.995 < truth[of] < high * 1.005, f"{name}: {got}, truth {truth[of]} ns")
        share = got["samples"] / cpu["count"]
        check(abs(share - truth[of] / total) < 0.03, f"{name}: {share:.3f} of {truth}")
    # all the time is spent in a copy of spin, but for the time in the library and at the edge
    spin = rows["spin"]["cpu"]
    elsewhere = (truth["leaf_library"] + truth["leaf_edge"]) / total
    close(spin["inlined_samples"] / cpu["count"], 1 - elsewhere, 0.05, "spin")
    check(rows["recursion"]["cpu"]["self_samples"] < 0.02 * cpu["count"], "recursion burns nothing")
    equal({rows[n]["origin"] for n in ("inlined", "recursion")}, {"own"}, "whose they are")
    equal(rows["libburn.so:leaf_library"]["origin"], "lib", "whose it is")
    # probed ones have one row, and no other
    equal(set(rows) & {"leaf_plain", "host_of_inlined"}, set(), "rows of probed functions")
    plain = snapshot.row("leaf_plain")
    check(plain["calls"] == 1 and plain["cpu"]["samples"] > 0.2 * cpu["count"], f"{plain}")
    # self samples are a partition: kernel's own work aside, each is one function's
    own = sum(r["cpu"]["self_samples"] for r in snapshot.doc["functions"])
    check(0.98 * cpu["count"] <= own <= cpu["count"], f"self samples: {own} of {cpu['count']}")
    check(any("inlined" in line and "~" in line for line in report.splitlines()), report)


def test_profile_rows_of_inlined_rust():
    f = Fixture("burns-rust-debug")
    t = Trace(f, *CPU[1:], "--crate", "burns", functions=())
    f.say("go")
    truth = json.loads(f.line())["cpu_ns"]
    snapshot = t.stop()
    f.finish()
    count = snapshot.doc["profiles"]["cpu"]["count"]
    rows = {r["name"]: r for r in snapshot.unprobed}
    spin = rows["burns::spin"]
    equal((spin["origin"], spin["crate"]), ("own", "burns"), "whose it is")
    equal(spin["cpu"]["inlined_samples"], spin["cpu"]["samples"], "no call of it is left")
    close(spin["cpu"]["time_ns"], sum(truth.values()), 0.1, "all the time is in it")
    compare = snapshot.row("burns::leaf_compare")
    check(compare["calls"] > 0, f"probed: {compare}")
    low, high = compare["cpu"]["time_interval_ns"]
    check(low * 0.99 < truth["sorting"] < high * 1.01, f"{compare['cpu']}, truth {truth}")
    primitive = [r for r in rows.values() if r["name"].startswith(("<u64>::", "core::num::"))]
    check(primitive, f"what spin does has no row: {sorted(rows)}")
    equal({r["origin"] for r in primitive}, {"std"}, "whose u64's functions are")
    check(sum(r["cpu"]["self_samples"] for r in snapshot.doc["functions"]) <= count, "a partition")


def test_profile_rows_of_one_symbol():
    """Static functions of one name are told apart by where they are."""
    f = Fixture("twins", 1_000_000_000)
    t = Trace(f, *CPU[1:])
    f.go()
    snapshot = t.stop()
    f.finish()
    count = snapshot.doc["profiles"]["cpu"]["count"]
    rows = {r["name"]: r["cpu"]["samples"] for r in snapshot.functions}
    equal(len(rows), 2, f"rows: {rows}")
    check(count > 50, f"samples: {count}")
    check(rows["traced_helper (twin_b.c)"] > 0.9 * count, f"{rows} of {count}")
    check(rows["traced_helper (twin_a.c)"] < 0.02 * count, f"{rows} of {count}")
    check(not any("traced_helper" in r["name"] for r in snapshot.unprobed), "no row twice")


def test_profile_rows_of_a_probed_library():
    """A library's function that is probed has its samples in that row."""
    f = Fixture("burns", 3)
    f.say("go")
    until(lambda: "libburn.so" in open(f"/proc/{f.pid}/maps").read(), 10, "the library")
    t = Trace(f, *CPU[1:], functions=("libburn.so:leaf_library",))
    truth = json.loads(f.line())["cpu_ns"]
    snapshot = t.stop()
    f.finish()
    row = snapshot.row("libburn.so:leaf_library")
    equal(row["calls"], 1, "its call was seen")
    low, high = row["cpu"]["time_interval_ns"]
    check(low * 0.99 < truth["leaf_library"] < high * 1.01, f"{row['cpu']}, truth {truth}")
    names = {r["name"] for r in snapshot.unprobed}
    check("libburn.so:entry_library" in names, f"its caller: {names}")
    check("libburn.so:leaf_library" not in names, "no row twice")


def test_profile_rows_between_two_snapshots():
    """Rows come while tracing goes on; each file is whole, and figures only grow."""
    f = Fixture("burns")
    t = Trace(f, "--cpu-profile=997", "-i", "0.1", functions=("leaf_plain",))
    until(lambda: os.path.exists(t.file), 5, "a file")
    check(not any(r["name"] == "recursion" for r in t.snapshot().unprobed), "a row before its time")
    f.say("go")
    seen = []
    until(lambda: seen.append(t.snapshot()) or f.has_line(), 20, "the end of the burning")
    last = t.stop()
    f.finish()
    for was, now in zip(seen, [*seen[1:], last]):
        rows = {r["name"]: r["cpu"] for r in now.unprobed}
        for r in was.unprobed:
            check(rows[r["name"]]["samples"] >= r["cpu"]["samples"], f"{r['name']} shrank")
    names = [{r["name"] for r in s.unprobed} for s in [*seen, last]]
    check("recursion" not in names[0] and "recursion" in names[-1], f"rows: {names[0]}")


def test_profile_through_return_probes():
    """They replace return addresses: 21 in a row in the recursion."""
    functions("--exit", "uretprobe")


def test_profile_by_thread():
    """Threads that do the same are told apart by their names, after their ends too."""
    f = Fixture("crew")
    folded = os.path.join(scratch(), "out.cpu.folded")
    t = Trace(f, *CPU, "--off-cpu", "--by-thread", "-o", folded, functions=())
    f.say("go")
    truth = json.loads(f.line())["threads"]
    snapshot = t.stop()
    f.finish()
    cpu, off = Profile(snapshot), Profile(snapshot, "off_cpu")
    total = sum(ns for ns, _ in truth.values())
    main = {"crew"}
    equal({s["thread"] for s in cpu.stacks} - main, set(truth), "threads on CPU")
    equal({s["thread"] for s in off.stacks} - main, set(truth), "threads off CPU")
    with open(folded) as file:
        lines = [line.rsplit(" ", 1) for line in file]
    for name, (ran, slept) in truth.items():
        samples = sum(s["value"] for s in cpu.stacks if s["thread"] == name)
        check(abs(samples / cpu.doc["count"] - ran / total) < 0.03, f"{name}: {samples}, ran {ran}")
        waits = [s for s in off.stacks if s["thread"] == name and "work" in off.names(s)]
        slow = sum(s["value"] for s in waits if any("sleep" in n for n in off.names(s)))
        close(slow, slept, 0.03, f"{name}: asleep")
        root = name.replace(";", "\\x3b") + ";"
        equal(sum(int(n) for line, n in lines if line.startswith(root)), samples, f"{name}: folded")
        check(any(f"thread {name}" in line for line in t.stdout), f"{name} in the report")
    burnt = [s for s in cpu.stacks if cpu.names(s)[-1] == "burn" and not s.get("truncated")]
    check(all("work" in cpu.names(s) for s in burnt), "whole stacks, without what is no frame")
    equal(len({tuple(s["frames"]) for s in burnt}), len(burnt) // len(truth), "the same but for names")


def test_profile_by_thread_needs_a_profile():
    done = roletrace("--pid", 1, "--by-thread")
    equal(done.returncode, 2, done.stderr)
    check("--by-thread needs" in done.stderr, done.stderr)


def test_profile_library_at_another_address():
    """L12: loaded, unloaded, loaded elsewhere: names stay right, whatever was mapped there."""
    f = Fixture("reloads")
    t = Trace(f, *CPU, functions=())
    f.say("go")
    truth = json.loads(f.line())
    profile = Profile(t.stop())
    f.finish()
    at = truth["at"]
    check(len({a & ~0xFFF for a in at}) >= 3, f"addresses change: {at}")
    check(at[0] == at[1], f"the same code, another library's: {at}")
    total = sum(truth["cpu_ns"].values())
    # until it is looked at a new library has no rows: such samples say so, and are no one else's
    unknown = 1 - profile.whole()
    check(unknown < 0.3, f"truncated: {profile.doc['truncated']}")
    for leaf, ns in truth["cpu_ns"].items():
        got, want = profile.share("main", leaf), ns / total
        check(want - unknown - 0.03 < got < want + 0.03, f"{leaf}: {got:.3f}, truth {want:.3f}")
