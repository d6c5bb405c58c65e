#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Benchmarks as ratios in one run, printed as a Markdown table.

usage: run.py BUILD_DIR [per-call|exits|budget|ready|daemon|idle|profile]...      (memory: memory.py)

Peers and subjects that are missing (bpftrace, a 46 MB role, a 170,000-symbol binary) are said and
left out. Floor = empty programs on the same sites, by roletrace's own loader, in the same run.
"""
import ctypes
import glob
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import tempfile
import time

from common import BUILD, CALLS, PEERS, ROLETRACE, ROUNDS, Target, Tracer
from common import in_peers, pin, roletrace, run_parts, table, time_traced


def bpftrace(target, fn):
    script = (f"uprobe:{target.path}:{fn} {{ @s[tid] = nsecs; }} "
              f"uretprobe:{target.path}:{fn} /@s[tid]/ {{ @h = hist(nsecs - @s[tid]); delete(@s[tid]); }} "
              "BEGIN { printf(\"READY\\n\"); }")
    return Tracer(in_peers("bpftrace", "-p", str(target.p.pid), "-e", script), "READY")


def funclatency(target, fn):
    return Tracer(in_peers("funclatency-libbpf", "-p", str(target.p.pid), f":{fn}"),
                  None)  # what it prints stays in its buffer


def peers():
    found = []
    for name, program, attach in (("bpftrace", "bpftrace", bpftrace),
                                  ("funclatency", "funclatency-libbpf", funclatency)):
        if subprocess.run(in_peers("which", program), capture_output=True).returncode == 0:
            found.append((name, attach))
        else:
            print(f"\n{name} is not installed{' in ' + PEERS if PEERS else ''}: left out")
    return found


def ours(mode, *args):
    return lambda target, fn: roletrace(target.p.pid, "-f", fn, "--exit", mode, *args)


def per_call():
    others = peers()
    subjects = [(mode + suffix, ours(mode, *args)) for mode in ("uretprobe", "sites")
                for suffix, args in ((" floor", ["--empty-programs"]), ("", []))]
    subjects += others
    rows = []
    with Target() as t:
        for fn in ("bench_push", "bench_mov", "bench_nop"):
            bare = min(t.ask(fn, 1000000) for _ in range(ROUNDS))
            ns = {}
            for _ in range(ROUNDS):  # in turn, so that the machine's moods hit all alike
                for name, attach in subjects:
                    ns.setdefault(name, []).append(time_traced(t, attach, fn))
            ns = {name: statistics.median(v) for name, v in ns.items()}
            for mode in ("uretprobe", "sites"):
                floor, full = ns[mode + " floor"], ns[mode]
                row = [fn, mode, f"{bare:.1f}", f"{floor:.0f}", f"{full:.0f}", f"{full - floor:.0f}",
                       f"{full / floor:.2f}"]
                for name, _ in others:
                    row += [f"{ns[name]:.0f}", f"{(full - floor) / (ns[name] - floor):.2f}"
                            if mode == "uretprobe" else "-"]
                rows.append(row)
    head = ["function", "--exit", "untraced", "floor", "roletrace", "above floor", "× floor"]
    for name, _ in others:
        head += [name, f"above floor ÷ {name}'s"]
    table(f"One traced call, ns (medians of {ROUNDS} attachments, each the least of {ROUNDS} × {CALLS} calls)",
          head, rows)


def role_binary():
    found = sorted(glob.glob(os.path.expanduser("~/.cache/roletrace/roles/bin/translator_sv2")))
    return found[0] if found else None


def big_binary():
    """The toolchain's own cargo: 42 MB, 171,000 function symbols."""
    found = glob.glob(os.path.expanduser("~/.rustup/toolchains/*/bin/cargo"))
    found = [f for f in found if os.path.getsize(f) > 30 << 20]
    return sorted(found)[0] if found else None


def held(path):
    """A process of that executable, held by ptrace right behind its exec."""
    libc = ctypes.CDLL(None)
    traceme = 0
    return subprocess.Popen([path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL,
                            preexec_fn=lambda: libc.ptrace(traceme, 0, 0, 0))


def ready():
    rows = []
    subjects = []
    role = role_binary()
    if role:
        subjects.append(("translator_sv2", role, []))
    else:
        print("\ntranslator_sv2 is not built (make check-roles): left out")
    big = big_binary()
    if big:
        subjects.append(("cargo", big, []))
        subjects.append(("cargo, 10,000 functions", big,
                         ["-f", "<*", "--exclude", "<a*", "--exclude", "<core*"]))
    for name, path, args in subjects:
        p = held(path)
        for sig in (signal.SIGINT, signal.SIGKILL):
            tr = roletrace(p.pid, *args)
            said = re.search(r"(\d+) functions, (\d+) probes, (\d+) ms", tr.out)
            time.sleep(0.3)
            stop_s = tr.stop(sig)
            rows.append([name, said.group(1), said.group(2), f"{tr.ready_s:.2f}", sig.name,
                         f"{stop_s:.2f}"])
        p.kill()
        p.wait()
    table("Ready and gone, seconds", ["binary", "functions", "probes", "ready", "ended by", "gone after"],
          rows)


def account(pid):
    """CPU seconds to the ns, wake-ups, bytes of RSS of a process that has one thread."""
    with open(f"/proc/{pid}/schedstat") as f:
        cpu_ns = int(f.read().split()[0])
    with open(f"/proc/{pid}/status") as f:
        switches = int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", f.read(), re.M)[1])
    with open(f"/proc/{pid}/statm") as f:
        rss = int(f.read().split()[1]) * resource.getpagesize()
    return cpu_ns / 1e9, switches, rss


def called_now_and_then(target, seconds):
    """50 calls of one function each tenth of a second."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        target.ask("bench_push", 50)
        time.sleep(0.1)


def daemon():
    rows, seconds = [], 30
    quiet, calls = lambda target, s: time.sleep(s), called_now_and_then
    with Target() as t, tempfile.TemporaryDirectory() as d:
        for what, args, meanwhile in (("quiet, file each 10 s (the defaults)", [], quiet),
                                      ("500 calls/s, file each 10 s", [], calls),
                                      ("quiet, file each second", ["-i", "1"], quiet)):
            tr = Tracer([ROLETRACE, "--pid", str(t.p.pid), "-f", "idle_*", "-f", "bench_push",
                         "-o", f"json:{d}/out.json", *args], "attached to")
            time.sleep(1)
            cpu0, switches0, rss0 = account(tr.p.pid)
            meanwhile(t, seconds)
            cpu1, switches1, rss1 = account(tr.p.pid)
            tr.stop()
            rows.append([what, f"{(cpu1 - cpu0) / seconds * 100:.2f} %",
                         f"{(switches1 - switches0) / seconds:.1f}", f"{rss0 / 1e6:.1f} MB",
                         f"{rss1 / 1e6:.1f} MB"])
    table("The daemon, 1,000 functions probed",
          ["", "CPU", "wake-ups/s", "RSS after 1 s", "RSS after 31 s"], rows)


def idle():
    trips = 50000
    with Target() as t:
        t.ask("pingpong", trips)
        pairs = []
        for _ in range(ROUNDS):
            bare = t.ask("pingpong", trips)
            tr = roletrace(t.p.pid, "-f", "idle_*")
            time.sleep(0.3)
            pairs.append((bare, t.ask("pingpong", trips)))
            tr.stop()
    ratios = [b / a for a, b in pairs]
    table("An attached, idle target: pipe round trips on one CPU, 1,000 functions probed and never called",
          ["round trip untraced", "attached", "ratio (median)", "ratios"],
          [[f"{statistics.median(a for a, _ in pairs):.0f} ns",
            f"{statistics.median(b for _, b in pairs):.0f} ns", f"{statistics.median(ratios):.3f}",
            " ".join(f"{r:.2f}" for r in ratios)]])


def exits():
    """Each kind of exit on each kind of function; and how many functions of real programs have which."""
    kinds = [("uretprobe", "uretprobe"), ("auto", "auto"), ("sites", "sites")]
    rows = []
    with Target() as t:
        for fn in ("bench_push", "bench_mov", "bench_nop", "bench_edge"):
            for kind, mode in kinds:
                floor, full = [], []
                for _ in range(3):
                    floor.append(time_traced(t, ours(mode, "--empty-programs"), fn))
                    full.append(time_traced(t, ours(mode), fn))
                a, b = statistics.median(floor), statistics.median(full)
                rows.append([fn, kind, f"{a:.0f}", f"{b:.0f}", f"{b - a:.0f}"])
    table("One traced call by kind of exit, ns (medians of 3 attachments)",
          ["function", "--exit", "floor", "roletrace", "above floor"], rows)
    rows = []
    for path in sorted(glob.glob(os.path.expanduser("~/.cache/roletrace/roles/bin/*"))) + [big_binary()]:
        if path:
            rows.append(shares(path))
    if rows:
        table("Functions of programs by what their probes cost (a single-stepped one: some µs more)",
              ["binary", "functions", "entry fast", "exits fast", "some exits fast", "exits single-stepped"],
              rows)


def shares(path):
    out = subprocess.run([ROLETRACE, "list", "--exe", path], capture_output=True, text=True).stdout
    found = re.findall(r"^(?:fn|async) +\d+ +(\w+) +\d+ +(\S+) ", out, re.M)
    n = max(len(found), 1)

    def part(column, word):
        return f"{100 * sum(f[column] == word for f in found) / n:.0f} %"

    return [os.path.basename(path), len(found), part(0, "fast"), part(1, "fast"), part(1, "both"),
            part(1, "step")]


class Loop:
    """Fixture rates: threads that call traced_hot so often."""

    def __init__(self, threads, spin):
        self.p = subprocess.Popen([os.path.join(BUILD, "tests", "fixtures", "rates"), str(threads),
                                   str(spin)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.p.stdout.readline()
        self.say("go")

    def say(self, word):
        self.p.stdin.write(word + "\n")
        self.p.stdin.flush()

    def ask(self, word):
        self.say(word)
        return json.loads(self.p.stdout.readline())

    def speed(self, seconds):
        """Work per second of CPU time, calls per second, probes' (system) time in CPUs."""
        a, s0 = self.ask("stat"), self.system_s()
        time.sleep(seconds)
        b, s1 = self.ask("stat"), self.system_s()
        calls, s = b["calls"] - a["calls"], (b["now_ns"] - a["now_ns"]) / 1e9
        work = calls + b["work"] - a["work"]
        return work / max(b["cpu_ns"] - a["cpu_ns"], 1) * 1e9, calls / s, (s1 - s0) / s

    def system_s(self):
        with open(f"/proc/{self.p.pid}/stat") as f:
            return int(f.read().rpartition(")")[2].split()[12]) / os.sysconf("SC_CLK_TCK")

    def end(self):
        truth = self.ask("quiesce")["truth"]
        self.p.stdin.close()
        self.p.wait()
        return truth


def spins_per_ns():
    loop = Loop(1, 10_000_000)
    per_s = loop.speed(1)[0]
    loop.end()
    return per_s / 1e9


def against(loop, twin, seconds):
    """Speed of a loop, its twin's = 1: both on one CPU in turns of some ms, so that what slows the
    machine slows both."""
    ratios = []
    for cpu in (0, 1 % os.cpu_count()):
        pin(loop.p.pid, cpu)
        pin(twin.p.pid, cpu)
        before = [one.ask("stat") for one in (loop, twin)]
        time.sleep(seconds)
        done = [(b["calls"] + b["work"] - a["calls"] - a["work"]) / max(b["cpu_ns"] - a["cpu_ns"], 1)
                for a, b in zip(before, [one.ask("stat") for one in (loop, twin)])]
        ratios.append(done[0] / done[1])
    return statistics.mean(ratios)


def watched(threads, spin, d):
    loop, twin, file = Loop(threads, spin), Loop(threads, spin), f"{d}/out.json"
    time.sleep(0.2)
    bare, before = against(loop, twin, 1), loop.speed(1)
    tr = Tracer([ROLETRACE, "--pid", str(loop.p.pid), "-f", "traced_hot", "-o", f"json:{file}"], "attached to")
    time.sleep(1)
    kept, after = against(loop, twin, 2) / bare, loop.speed(1)
    tr.stop()
    loop.end()
    twin.end()
    with open(file) as f:
        row = next(r for r in json.load(f)["functions"] if r["name"] == "traced_hot")
    how = row["sampled"] or {"mode": "exact", "count": "exact"}
    return [f"{before[1]:.3g}", f"{kept:.3f}", f"{100 * (after[2] - before[2]):.1f} %", how["mode"], how["count"]]


def budget():
    per_ns, cpus = spins_per_ns(), os.cpu_count()
    rows = []
    with tempfile.TemporaryDirectory() as d:
        for rate in (1, 10_000, 1_000_000, 100_000_000):
            for threads in (1, 2, 8):
                spin = int(per_ns * 1e9 * min(threads, cpus) / rate)
                rows.append([f"{rate:,}", threads, *watched(threads, spin, d)])
    table("Loops under the default budget (2 % of one CPU), from one second after the attach on",
          ["calls/s wanted", "threads", "untraced", "speed kept", "probes take, of a CPU", "mode at the end",
           "count"], rows)


class Busy:
    """bench/busy: threads that count, some calls deep."""

    def __init__(self, threads, depth):
        self.p = subprocess.Popen([os.path.join(BUILD, "bench", "busy"), str(threads), str(depth)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.p.stdout.readline()

    def ask(self, word):
        self.p.stdin.write(word + "\n")
        self.p.stdin.flush()
        return json.loads(self.p.stdout.readline())

    def end(self):
        self.p.stdin.close()
        self.p.wait()


BPF_STATS = "/proc/sys/kernel/bpf_stats_enabled"


def samplers(pid):
    """(ns, runs) of the BPF programs of a process that run at samples, as the kernel counts them."""
    ns = runs = 0
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            with open(f"/proc/{pid}/fdinfo/{fd}") as f:
                info = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        except OSError:
            continue
        if info.get("prog_type") == "7":  # BPF_PROG_TYPE_PERF_EVENT
            ns, runs = ns + int(info["run_time_ns"]), runs + int(info["run_cnt"])
    return ns, runs


def sampled(hz, depth, seconds=3):
    """A sampler's price by the kernel's own account, then what it takes from the target's speed."""
    busy, twin = Busy(16, depth), Busy(16, depth)
    bare = against(busy, twin, seconds / 2)
    tr = Tracer([ROLETRACE, "--pid", str(busy.p.pid), "--no-functions", "--no-threads", "--memory", "off",
                 f"--cpu-profile={hz}", "-o", "json:/dev/null"], "attached to")
    kept = against(busy, twin, seconds / 2) / bare
    twin.end()
    for tid in os.listdir(f"/proc/{busy.p.pid}/task"):
        os.sched_setaffinity(int(tid), range(os.cpu_count()))
    with open(BPF_STATS, "w") as f:
        f.write("1")
    try:
        (ns0, runs0), a = samplers(tr.p.pid), busy.ask("stat")
        time.sleep(seconds)
        (ns1, runs1), b = samplers(tr.p.pid), busy.ask("stat")
    finally:
        with open(BPF_STATS, "w") as f:
            f.write("0")
    tr.stop()
    busy.end()
    cpu_s, wall_ns = (b["cpu_ns"] - a["cpu_ns"]) / 1e9, b["now_ns"] - a["now_ns"]
    each = (ns1 - ns0) / max(hz * cpu_s, 1)  # samples of others are dropped at once, and are in it
    return [hz, depth, f"{cpu_s / wall_ns * 1e9:.2f}", f"{each / 1e3:.1f} µs", f"{100 * (ns1 - ns0) / wall_ns:.3f} %",
            f"{100 * each * hz * 16 / 1e9:.2f} %", f"{kept:.4f}"]


def profile():
    """16 busy threads. Their CPUs are what there is: for 16 CPUs the price is multiplied."""
    rows = [sampled(hz, depth) for hz in (49, 997) for depth in (4, 20)]
    table("A CPU profile of 16 busy threads",
          ["Hz", "calls deep", "CPUs they had", "a sample", "all samples, of a CPU", "on 16 CPUs it would be", "speed kept"],
          rows)


PARTS = {"per-call": per_call, "exits": exits, "budget": budget, "ready": ready,
         "daemon": daemon, "idle": idle, "profile": profile}


if __name__ == "__main__":
    run_parts(PARTS)
