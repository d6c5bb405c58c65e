# SPDX-License-Identifier: BSD-2-Clause
"""What tests ask of a snapshot's profiles, and gdb as a second opinion on stacks."""

import bisect
import collections
import functools
import os
import re
import subprocess
import tempfile

from checks import Failure, Skip, check, equal, until
from harness import roletrace, scratch, start


class Profile:
    """One kind ("cpu", "off_cpu") of a snapshot's profiles."""

    def __init__(self, snapshot, kind="cpu"):
        profiles = snapshot.doc["profiles"]
        check(kind in profiles, f"no {kind} in the profiles: {list(profiles)}")
        self.frames = profiles["frames"]
        self.doc = profiles[kind]
        self.stacks = self.doc["stacks"]
        self.weight = "value" if kind == "cpu" else "count"
        self.check_contract()

    def check_contract(self):
        kept = sum(s[self.weight] for s in self.stacks)
        lost = sum(self.doc["lost"].values())
        equal(kept + lost, self.doc["count"], f"stacks and lost are all: {self.doc['lost']}")
        reasons = collections.Counter()
        for s in self.stacks:
            check(s["frames"], f"a stack without frames: {s}")
            if s.get("truncated"):
                reasons[s["truncated"]] += s[self.weight]
        equal(dict(reasons), {k: n for k, n in self.doc["truncated"].items() if n}, "truncated")

    def names(self, stack):
        return tuple(self.frames[i]["name"] for i in stack["frames"])

    def share(self, *path):
        """Of the whole, what has these frames one behind the other, not necessarily neighbours."""
        total = sum(s["value"] for s in self.stacks)
        part = sum(s["value"] for s in self.stacks if has_path(self.names(s), path))
        return part / max(total, 1)

    def whole(self):
        """The share that reaches the thread's start."""
        total = sum(s[self.weight] for s in self.stacks)
        part = sum(s[self.weight] for s in self.stacks if not s.get("truncated"))
        return part / max(total, 1)

    def named(self):
        """The share of frames that have a name."""
        all_frames = named = 0
        for s in self.stacks:
            for name in self.names(s):
                all_frames += s[self.weight]
                named += s[self.weight] * ("+0x" not in name)
        return named / max(all_frames, 1)

    def has_libc_names(self):
        """Whether the C library's debug file is there: its own functions have no names else."""
        return any(f["name"] == "start_thread" for f in self.frames)

    def without_kernel(self):
        """How often each chain of user frames is there, whole ones only."""
        counts = collections.Counter()
        for s in self.stacks:
            user = tuple(
                self.frames[i]["name"] for i in s["frames"] if self.frames[i]["kind"] != "kernel"
            )
            if not s.get("truncated"):
                counts[user] += s[self.weight]
        return counts


def folded(file, kind):
    """What `flame` makes of a snapshot file: value by stack."""
    path = os.path.join(scratch(), "out.folded")
    done = roletrace("flame", file, "--kind", kind, "-o", path)
    equal(done.returncode, 0, f"flame: {done.stderr}")
    with open(path) as f:
        lines = [line.rpartition(" ") for line in f]
    return {stack: int(value) for stack, _, value in lines}


def has_path(names, path):
    rest = iter(names)
    return all(any(n == want for n in rest) for want in path)


GDB_PRELUDE = """
import gdb
for line in ("set pagination off", "set confirm off", "set backtrace past-main on",
             "set backtrace past-entry on", "set print frame-arguments none",
             "set debuginfod enabled off", "set demangle-style auto",
             "handle SIGINT stop print nopass", "handle SIGUSR1 nostop noprint pass"):
    try:
        gdb.execute(line, to_string=True)
    except gdb.error:
        pass

def plain(frame, caller):
    return f"{frame.name() or '?'}\t{frame.pc() - caller:x}"

def stack():
    names, frame, caller = [], gdb.newest_frame(), 0
    while frame is not None:
        if frame.type() == gdb.SIGTRAMP_FRAME:
            names.append("<signal>\t0")
        elif frame.type() != gdb.INLINE_FRAME and frame.type() != gdb.TAILCALL_FRAME:
            names.append(plain(frame, caller))
        caller = frame.type() != gdb.SIGTRAMP_FRAME
        frame = frame.older()
    return ";".join(reversed(names))

out = open(OUT, "w")
def begin():
    open(OUT + ".begin", "w").close()

def note():
    out.write(stack() + "\\n")
"""


def gdb_stacks(pid, body, seconds=60, begin=None):
    """Runs body (Python) in a gdb attached to pid; the stacks that it noted, roots first. begin is
    called when body calls begin()."""
    if subprocess.run(["sh", "-c", "command -v gdb"], capture_output=True).returncode:
        raise Skip("gdb is not installed")
    with tempfile.TemporaryDirectory(prefix="roletrace-gdb-") as d:
        out, script = os.path.join(d, "stacks"), os.path.join(d, "script.py")
        with open(script, "w") as f:
            f.write(f"OUT = {out!r}\nPID = {pid}\n{GDB_PRELUDE}\n{body}\nout.close()\n")
        gdb = start(
            ["gdb", "-nx", "-batch", "-p", str(pid), "-x", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if begin:
            until(lambda: os.path.exists(out + ".begin") or gdb.poll() is not None, 30, "no gdb")
            begin()
        try:
            said, complaints = gdb.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"gdb does not end within {seconds} s") from None
        if not os.path.exists(out):
            raise Failure(f"gdb noted nothing: {complaints[-2000:]}")
        aliases = Aliases(pid)
        with open(out) as f:
            lines = [tuple(map(aliases.of, line.strip().split(";"))) for line in f]
        check(lines, f"gdb noted nothing: {said[-1000:]} {complaints[-2000:]}")
        return lines


class Aliases:
    """The names of the executable's functions by address: identical ones are folded into one, and
    which of its names is shown is a matter of taste."""

    def __init__(self, pid):
        exe = os.path.realpath(f"/proc/{pid}/exe")
        with open(f"/proc/{pid}/maps") as maps:
            spans = [line.split()[0] for line in maps if line.rstrip().endswith(exe)]
        self.start = int(spans[0].split("-")[0], 16)
        self.end = int(spans[-1].split("-")[1], 16)
        nm = subprocess.run(
            ["nm", "-C", "--defined-only", "-n", f"/proc/{pid}/exe"], capture_output=True, text=True
        )
        by_address = collections.defaultdict(set)
        for line in nm.stdout.splitlines():
            address, kind, name = line.split(" ", 2)
            if kind in "tTwWiI":
                by_address[int(address, 16)].add(plainest(name))
        self.names = sorted(by_address.items())
        self.addresses = [a for a, _ in self.names]
        sections = subprocess.run(
            ["readelf", "-SW", f"/proc/{pid}/exe"], capture_output=True, text=True
        )
        plts = re.findall(r"\] \.plt\S*\s+\S+\s+(\w+) \w+ (\w+)", sections.stdout)
        self.plts = [(int(a, 16), int(a, 16) + int(n, 16)) for a, n in plts]
        self.bias = 0 if self.addresses and self.addresses[0] >= self.start else self.start

    def of(self, frame):
        """NAME <tab> PC of gdb to all names that it may have."""
        name, pc = frame.split("\t")
        pc = int(pc, 16)
        if any(lo <= pc - self.bias < hi for lo, hi in self.plts):
            return frozenset(["@plt"])
        i = bisect.bisect_right(self.addresses, pc - self.bias) - 1
        if self.start <= pc < self.end and i >= 0 and not name.endswith("@plt"):
            return frozenset(self.names[i][1] | {plainest(name)})
        return frozenset([name if name == "<signal>" or name.endswith("@plt") else plainest(name)])


def same_name(ours, theirs):
    """gdb knows the way back from a signal as such, and makes up names of PLT entries."""
    for name in theirs:
        if name == "<signal>" and ("restore_rt" in ours or "+0x" in ours):
            return True
        if name.endswith("@plt") and "+0x" in ours:
            return True
    return plainest(ours) in theirs


@functools.cache
def plainest(name):
    """Without hashes, parameters, and what the C library puts around its names."""
    name = re.sub(r"::h[0-9a-f]{16}$|\[[0-9a-f]{12,16}\]", "", name)
    if "::" not in name:
        name = re.sub(r"^(_*(GI_|libc_))*_*|_impl$", "", name.split("(")[0])
        name = re.sub(r"\.(part|isra|constprop|cold)\..*", "", name)
    return name


def same_stack(ours, theirs):
    return len(ours) == len(theirs) and all(map(same_name, ours, theirs))


STOP_ANYWHERE = """
import os, signal, threading, random
for i in range(STOPS):
    threading.Timer(random.uniform(0.01, 0.1), os.kill, (PID, signal.SIGINT)).start()
    gdb.execute("continue", to_string=True)
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        note()
"""


def found_all(theirs, ours, at_least):
    """Every stack that gdb saw is there, as often as gdb saw it."""
    check(len(theirs) >= at_least, f"stacks that gdb saw: {len(theirs)}")
    missing = []
    for stack, times in collections.Counter(theirs).items():
        got = sum(n for our, n in ours.items() if same_stack(our, stack))
        if got < times:
            missing.append((times - got, stack))
    wrong = sum(n for n, _ in missing)
    near = [s for s in ours if missing and len(s) == len(missing[0][1])][:2]
    equal(wrong, 0, f"of {len(theirs)} stacks are not ours: {missing[:3]}; ours there: {near}")
