# SPDX-License-Identifier: BSD-2-Clause
"""What the benchmarks have in common: the target, tracers, tables. The build folder is the first
argument of each."""
import contextlib
import ctypes
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
ROLETRACE = os.path.join(BUILD, "roletrace")
PEERS = os.environ.get("PEERS")  # a root folder by peers.sh
TARGET = os.path.join(BUILD, "bench", "target")
STATS = "/proc/sys/kernel/bpf_stats_enabled"
ROUNDS = 5
CALLS = 5000


def machine():
    with open("/proc/cpuinfo") as f:
        model = re.search(r"model name\s*: (.*)", f.read())
    return f"Linux {os.uname().release}, {os.cpu_count()} CPUs, {model.group(1) if model else '?'}"


def pin(pid, cpu):
    for tid in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(tid), {cpu})


class Target:
    def __init__(self, command=()):
        """command: what starts it, e.g. a tool that has to be there from the first instruction."""
        self.dir = tempfile.TemporaryDirectory(prefix="roletrace-bench-", dir="/tmp")
        self.path = shutil.copy(TARGET, self.dir.name)  # where a peer in a chroot sees it too
        self.p = subprocess.Popen([*command, self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        words = [""]
        while words[:1] != ["ready"]:  # the tool may talk first
            line = self.p.stdout.readline()
            assert line, "the target ended"
            words = line.split()
        self.pid = int(words[1])

    def ask(self, what, n):
        self.p.stdin.write(f"{what} {n}\n")
        self.p.stdin.flush()
        return float(self.p.stdout.readline())

    def end(self):
        """What was said at the end, e.g. by the tool that started it."""
        self.p.stdin.close()
        said = self.p.stdout.read()
        self.p.wait()
        self.dir.cleanup()
        return said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def end_with_parent():
    """No tracer outlives a benchmark that is cut short; a target ends with its stdin."""
    set_pdeathsig = 1
    ctypes.CDLL(None).prctl(set_pdeathsig, signal.SIGTERM)


class Tracer:
    """A tracer, ready when its output shows `ready` (None: after two seconds)."""

    def __init__(self, args, ready):
        self.begin = time.monotonic()
        self.p = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, preexec_fn=end_with_parent)
        self.out = ""
        if ready is None:
            time.sleep(2)
            if self.p.poll() is not None:
                raise RuntimeError(f"{' '.join(args)} ended")
            return
        deadline = time.monotonic() + 60
        while ready not in self.out:
            if not select.select([self.p.stdout], [], [], deadline - time.monotonic())[0]:
                raise RuntimeError(f"{args[0]} did not get ready: {self.out}")
            got = os.read(self.p.stdout.fileno(), 65536).decode(errors="replace")
            if not got:
                raise RuntimeError(f"{' '.join(args)} failed: {self.out}")
            self.out += got
        self.ready_s = time.monotonic() - self.begin

    def stop(self, sig=signal.SIGINT):
        t = time.monotonic()
        self.p.send_signal(sig)
        self.rest()
        return time.monotonic() - t

    def rest(self):
        """All it said until its end."""
        self.out += self.p.communicate()[0].decode(errors="replace")
        return self.out


def roletrace(pid, *args):
    return Tracer([ROLETRACE, "--pid", str(pid), "--budget", "off", "-o", "json:/dev/null", *args],
                  "attached to")


@contextlib.contextmanager
def program_times():
    """The kernel counts the time of BPF programs, of everybody's, as long as this lasts."""
    with open(STATS) as f:
        before = f.read()
    try:
        with open(STATS, "w") as f:
            f.write("1")
        yield
    finally:
        with open(STATS, "w") as f:
            f.write(before)


def run_ns(pid):
    """Time of the programs that a process holds."""
    times = {}
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        with open(f"/proc/{pid}/fdinfo/{fd}") as f:
            said = dict(re.findall(r"^(\w+):\s*(\d+)$", f.read(), re.M))
        if "run_time_ns" in said:
            times[said["prog_id"]] = int(said["run_time_ns"])
    return sum(times.values())


def program_ns(pid, work):
    """Time in the BPF programs that a process holds, while work() is done: unlike the time of the
    traps around them it hardly moves from run to run."""
    with program_times():
        before = run_ns(pid)
        work()
        return run_ns(pid) - before


def in_peers(*argv):
    return ["chroot", PEERS, *argv] if PEERS else list(argv)


def time_traced(target, attach, fn):
    """The least of some rounds: what disturbs a round only ever adds."""
    tracer = attach(target, fn)
    time.sleep(0.3)
    target.ask(fn, 1000)
    ns = min(target.ask(fn, CALLS) for _ in range(ROUNDS))
    tracer.stop()
    return ns


def table(title, head, rows):
    print(f"\n### {title}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for r in rows:
        print("| " + " | ".join(str(c) for c in r) + " |")
    sys.stdout.flush()


def run_parts(parts):
    """What the command line names of them, else all."""
    if os.geteuid():
        sys.exit("bench: needs root")
    names = sys.argv[2:] or list(parts)
    for n in names:
        if n not in parts:
            sys.exit(f"bench: no part '{n}': {', '.join(parts)}")
    print(machine())
    for n in names:
        parts[n]()
