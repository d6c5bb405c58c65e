# SPDX-License-Identifier: BSD-2-Clause
"""What tests ask of a snapshot's profiles, and gdb as a second opinion on stacks."""

import collections
import os
import re
import subprocess
import tempfile

from checks import Failure, Skip, check, equal, until
from harness import start


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

def plain(frame):
    # the linkage name: what the symbol table says
    return frame.name() or "?"

def stack():
    names, frame = [], gdb.newest_frame()
    while frame is not None:
        if frame.type() == gdb.SIGTRAMP_FRAME:
            names.append("<signal>")
        elif frame.type() != gdb.INLINE_FRAME and frame.type() != gdb.TAILCALL_FRAME:
            names.append(plain(frame))
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
        with open(out) as f:
            lines = [tuple(line.strip().split(";")) for line in f]
        check(lines, f"gdb noted nothing: {said[-1000:]} {complaints[-2000:]}")
        return lines


def same_name(ours, theirs):
    """gdb says names with parameters and hashes, and knows the way back from a signal as such."""
    if theirs == "<signal>":
        return "restore_rt" in ours or "+0x" in ours
    if theirs.endswith("@plt"):
        return "+0x" in ours  # no symbol of the file, gdb makes one up
    return plainest(theirs) == plainest(ours)


def plainest(name):
    """One function of the C library goes by several names."""
    name = re.sub(r"::h[0-9a-f]{16}$", "", name).split("(")[0]
    return re.sub(r"^_*(GI_|libc_)?_*|_impl$", "", name)


def same_stack(ours, theirs):
    return len(ours) == len(theirs) and all(map(same_name, ours, theirs))
