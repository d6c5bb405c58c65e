# SPDX-License-Identifier: BSD-2-Clause
"""The tools that watch a process's memory, all used in one way:

    w = watcher(); target = start(w.command); w.attach(pid); ...; w.detach(); end(target); w.blocks

`command` starts the target (empty where the tool needs not be there from the start), `blocks` is how
many blocks the tool says are in use, of those it saw allocated: the proof that it was counting.
"""
import json
import os
import re
import shutil
import subprocess
import tempfile

from common import BUILD, PEERS, ROLETRACE, Tracer


def which(*programs):
    return all(shutil.which(p) for p in programs)


def libc_of(pid):
    """The file that a process maps as its libc."""
    with open(f"/proc/{pid}/maps") as f:
        return re.search(r"\S+/libc\.so\.6$", f.read(), re.M).group(0)


def offset_of(libc, symbol):
    """In a libc the address of a function is its place in the file."""
    out = subprocess.run(["nm", "-D", libc], capture_output=True, text=True, check=True).stdout
    return "0x" + re.search(rf"^(\w+) [TW] {symbol}@@", out, re.M).group(1)


class Watcher:
    missing = staticmethod(lambda: "")  # what is not installed
    command = ()
    blocks = None
    net = False  # blocks: net change since it was attached, as frees of older ones count
    notes = ""

    def __init__(self):
        self.dir = tempfile.TemporaryDirectory(prefix="rt-", dir="/tmp")
        self.pids = set()  # its own processes, while attached
        self.programs = set()  # those of them that hold BPF programs

    def attach(self, pid):
        pass

    def detach(self):
        pass

    def ended(self, said):
        """The target has ended, and its output ended so."""
        self.dir.cleanup()


class Roletrace(Watcher):
    def __init__(self, *args):
        super().__init__()
        self.args = args

    def attach(self, pid):
        self.tracer = Tracer([ROLETRACE, "--pid", str(pid), "-o", f"json:{self.dir.name}/out.json",
                              *self.args], "attached to")
        self.pids = self.programs = {self.tracer.p.pid}

    def detach(self):
        self.tracer.stop()
        with open(f"{self.dir.name}/out.json") as f:
            self.snapshot = json.load(f)
        memory = self.snapshot.get("memory", {})
        self.blocks = memory.get("live_count")
        self.net = memory.get("mode") == "live"
        health = self.snapshot["health"]
        self.notes = "; ".join(health["reasons"]) if health["status"] != "ok" else ""


class Memleak(Watcher):
    """Debian 13's, by that Debian's loader but in this root: in its own it takes its own libc for the
    target's. -O is cut to 31 characters, so the libc gets a short name."""

    program = f"{PEERS}/usr/sbin/memleak-libbpf"
    loader = [f"{PEERS}/lib64/ld-linux-x86-64.so.2", "--library-path", f"{PEERS}/usr/lib/x86_64-linux-gnu"]

    @classmethod
    def missing(cls):
        return "" if PEERS and os.path.exists(cls.program) else "memleak-libbpf"

    def attach(self, pid):
        libc = f"{self.dir.name}/c"
        os.symlink(libc_of(pid), libc)
        self.tracer = Tracer(["stdbuf", "-oL", *self.loader, self.program, "-p", str(pid), "-T", "10240",
                              "-O", libc, "3600"], "Hit Ctrl-C")
        self.pids = self.programs = {self.tracer.p.pid}

    def detach(self):
        unknown = self.without_stack()
        self.tracer.stop()
        self.blocks = sum(map(int, re.findall(r"bytes in (\d+) allocations", self.tracer.out)))
        self.notes = f"{unknown} booked under no stack" if unknown else ""

    def without_stack(self):
        """Blocks booked under an error instead of a stack: two stacks of one hash, or none to be had."""
        rows, maps = [], self.maps()
        assert maps, "memleak has no map of that name"
        for m in maps:
            shown = subprocess.run(["bpftool", "-j", "map", "dump", "id", m], capture_output=True, text=True)
            rows += json.loads(shown.stdout)
        return sum(int(r["formatted"]["value"][""]["number_of_allocs"], 0) for r in rows
                   if r["formatted"]["key"] >> 31)

    def maps(self):
        """Its map of that name, by number: another memleak may be running."""
        found = []
        for fd in os.listdir(f"/proc/{self.tracer.p.pid}/fdinfo"):
            with open(f"/proc/{self.tracer.p.pid}/fdinfo/{fd}") as f:
                found += re.findall(r"^map_id:\s*(\d+)$", f.read(), re.M)
        return [m for m in found if "name combined_allocs" in subprocess.run(
            ["bpftool", "map", "show", "id", m], capture_output=True, text=True).stdout]


class MemleakFloor(Watcher):
    """memleak's probes that fire for malloc and free, and nothing in them."""

    def attach(self, pid):
        libc = libc_of(pid)
        malloc, free = offset_of(libc, "malloc"), offset_of(libc, "free")
        self.tracer = Tracer([f"{BUILD}/bench/floor", str(pid), libc, malloc, malloc + "r", free], "ready")
        self.pids = self.programs = {self.tracer.p.pid}

    def detach(self):
        self.tracer.stop()


class Heaptrack(Watcher):
    """In the target from its first instruction on."""

    @staticmethod
    def missing():
        return "" if which("heaptrack") else "heaptrack"

    def __init__(self):
        super().__init__()
        self.command = ["heaptrack", "-o", f"{self.dir.name}/out"]

    def attach(self, pid):
        self.pids = descendants(parent_of(pid)) - {pid}

    def ended(self, said):
        self.blocks = leaked(said)
        self.dir.cleanup()


class HeaptrackInjected(Watcher):
    """Put into a running target by gdb, which calls functions there."""

    @staticmethod
    def missing():
        return "" if which("heaptrack", "gdb") else "heaptrack, gdb"

    def attach(self, pid):
        self.pid = pid
        self.tracer = Tracer(["heaptrack", "-o", f"{self.dir.name}/out", "-p", str(pid)],
                             "injection finished")
        self.pids = descendants(self.tracer.p.pid)

    def detach(self):
        """As its script does on Ctrl-C, but for killing what writes the account before that is done."""
        subprocess.run(["gdb", "--batch-silent", "-n", "-iex=set auto-solib-add off", "-p", str(self.pid),
                        "-ex", "sharedlibrary libheaptrack_inject", "-ex", "call (void) heaptrack_stop()",
                        "-ex", "detach"], capture_output=True)
        self.blocks = leaked(self.tracer.rest())


def leaked(said):
    found = re.search(r"leaked allocations:\s*(\d+)", said)
    return int(found.group(1)) if found else None


def stat_of(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()


def parent_of(pid):
    return int(stat_of(pid)[1])


def descendants(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        below = {int(c) for c in f.read().split()}
    return below.union(*map(descendants, below))


def cpu_s(pids):
    fields = [stat_of(p) for p in pids]
    return sum(int(f[11]) + int(f[12]) for f in fields) / os.sysconf("SC_CLK_TCK")
