# SPDX-License-Identifier: BSD-2-Clause
"""What an end-to-end test is made of: a Fixture (the target), a Trace (roletrace on it), a Snapshot
(what it wrote). Every Trace is checked, whatever its test is about: the exit code, the contract of
the snapshot file, and that the target's code is byte for byte that of its file again."""

import ctypes
import glob
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time

ROLETRACE = os.path.abspath(os.environ.get("ROLETRACE", "build/roletrace"))
FIXTURES = os.environ.get("FIXTURES", "build/tests/fixtures")
CARGO_BIN = os.environ.get("CARGO_BIN", "build/cargo/release")
ATTACHED = re.compile(r"attached to (\d+) \((.*)\): (\d+) functions?, (\d+) probes?, ([\d.]+) ms")

_cleanups = []  # of the running test, last one first


class Failure(AssertionError):
    pass


def check(condition, message):
    if not condition:
        raise Failure(message)


def equal(got, wanted, what):
    check(got == wanted, f"{what}: {got}, expected {wanted}")


def close(got, wanted, tolerance, what):
    check(abs(got - wanted) <= tolerance * wanted, f"{what}: {got}, expected {wanted} ± {tolerance:.0%}")


def until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"{what}: not within {seconds} s")
        time.sleep(0.02)


def scratch():
    """A directory for this test."""
    path = tempfile.mkdtemp(prefix="roletrace-e2e-")
    _cleanups.append(lambda: shutil.rmtree(path, ignore_errors=True))
    return path


def clean_up():
    while _cleanups:
        _cleanups.pop()()


def start(argv, **kwargs):
    process = subprocess.Popen(argv, **kwargs)

    def end():
        if process.poll() is None:
            process.kill()
            process.send_signal(signal.SIGCONT)
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                try:
                    pipe.close()
                except OSError:
                    pass

    _cleanups.append(end)
    return process


class Target:
    """A process to trace: what a Trace needs to know of it."""

    def __init__(self, process):
        self.process, self.pid = process, process.pid

    def breakpoints(self):
        """Addresses where the executable's code in memory is not what its file says."""
        changed = []
        tid = next(t for t in os.listdir(f"/proc/{self.pid}/task") if is_alive(self.pid, t))
        base = f"/proc/{self.pid}/task/{tid}"
        exe = os.stat(f"{base}/exe")
        with open(f"{base}/maps") as maps, open(f"{base}/mem", "rb") as memory, open(f"{base}/exe", "rb") as file:
            for line in maps:
                span, rights, offset, _, inode = line.split()[:5]
                if "x" not in rights or int(inode) != exe.st_ino:
                    continue
                lo, hi = (int(x, 16) for x in span.split("-"))
                memory.seek(lo)
                file.seek(int(offset, 16))
                there = memory.read(hi - lo)
                told = file.read(hi - lo).ljust(hi - lo, b"\0")
                if there != told:
                    changed += [lo + i for i in range(hi - lo) if there[i] != told[i]]
        return changed


class Fixture(Target):
    """A target that speaks the protocol of fixtures/c/fixture.h."""

    def __init__(self, name, *args, exe=None):
        self.exe = exe or os.path.join(FIXTURES, name)
        super().__init__(start([self.exe, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        self.buffer = b""
        words = self.line().split()
        check(words[:1] == ["ready"], f"{name} said {words}")
        equal(int(words[1]), self.pid, "pid")

    def say(self, word):
        self.process.stdin.write(word.encode() + b"\n")
        self.process.stdin.flush()

    def line(self, seconds=60):
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.buffer:
                left = end - time.monotonic()
                check(left > 0 and selector.select(left), f"{self.exe} said nothing for {seconds} s")
                data = os.read(self.process.stdout.fileno(), 1 << 16)
                if not data:
                    raise Failure(f"{self.exe} ended: {self.process.wait()}")
                self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode()

    def ask(self, word):
        """Says the word, returns the JSON of the answer."""
        self.say(word)
        return json.loads(self.line())

    def go(self):
        """One round of work; the truth about it."""
        return self.ask("go")["truth"]

    def finish(self, code=0):
        """The end of stdin is the end of a fixture."""
        if self.process.stdin:
            self.process.stdin.close()
            self.process.stdin = None
        try:
            got = self.process.wait(20)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.exe} does not end") from None
        equal(got, code, f"exit code of {self.exe}")


def is_alive(pid, tid):
    try:
        with open(f"/proc/{pid}/task/{tid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def demo_role(*args):
    return Fixture("demo_role", *args, exe=os.path.join(CARGO_BIN, "demo_role"))


def roletrace(*args, seconds=30, **kwargs):
    """Runs to its end."""
    return subprocess.run([ROLETRACE, *map(str, args)], capture_output=True, text=True, timeout=seconds, **kwargs)


class Trace:
    """roletrace attached to a target; by default to all its functions called traced_*, no limits."""

    def __init__(self, target, *args, functions=("traced_*",), budget="off", wait=True, command=()):
        self.target = target
        self.file = os.path.join(scratch(), "trace.json")
        argv = [*command, ROLETRACE, "--pid", str(target.pid), "-o", f"json:{self.file}"]
        argv += ["--budget", budget] if budget else []
        for f in functions:
            argv += ["-f", f]
        self.process = start([*argv, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        self.stderr, self.stdout = [], []
        self.readers = [threading.Thread(target=self._read, args=a, daemon=True)
                        for a in ((self.process.stderr, self.stderr), (self.process.stdout, self.stdout))]
        for r in self.readers:
            r.start()
        self.attached = None
        if wait:
            self.wait_attached()

    @staticmethod
    def _read(pipe, lines):
        try:
            for line in pipe:
                lines.append(line.rstrip("\n"))
        except ValueError:
            pass  # closed under us

    def said(self):
        return "\n    ".join(["roletrace said:", *self.stderr[-12:]])

    def wait_attached(self, seconds=60):
        def seen():
            self.attached = next(filter(None, map(ATTACHED.search, list(self.stderr))), None)
            return self.attached or self.process.poll() is not None

        until(seen, seconds, f"no line 'attached to ...'; {self.said()}")
        check(self.attached, f"roletrace ended with {self.process.poll()} unattached; {self.said()}")
        equal(int(self.attached[1]), self.target.pid, "the pid attached to")

    @property
    def function_count(self):
        return int(self.attached[3])

    def wait(self, seconds=30, code=0):
        """Waits for its own end; the snapshot."""
        try:
            got = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"roletrace does not end; {self.said()}") from None
        for r in self.readers:
            r.join(5)
        equal(got, code, f"exit code of roletrace; {self.said()}")
        if self.target.process.poll() is None:
            equal(list(map(hex, self.target.breakpoints())), [], "breakpoints left in the target")
        return self.snapshot()

    def stop(self, by=signal.SIGINT, seconds=30):
        self.process.send_signal(by)
        return self.wait(seconds)

    def snapshot(self):
        with open(self.file) as f:
            return Snapshot(json.load(f))


class Snapshot:
    STATS = ("sum_ns", "total_ns", "self_ns", "min_ns", "max_ns", "mean_ns", "p50_ns", "p95_ns", "p99_ns")

    def __init__(self, doc):
        self.doc = doc
        self.functions = doc["functions"]
        self.lost = doc["lost"]
        self.check_contract()

    @staticmethod
    def plain(name):
        """Closures as the legacy mangling has them."""
        return re.sub(r"\{closure#\d+\}", "{{closure}}", name)

    def rows(self, part):
        return [r for r in self.functions if part in self.plain(r["name"])]

    def row(self, name):
        rows = [r for r in self.functions if self.plain(r["name"]) == name]
        names = ", ".join(sorted(r["name"] for r in self.functions)[:20])
        equal(len(rows), 1, f"rows called '{name}' (there are: {names})")
        return rows[0]

    def check_contract(self):
        d = self.doc
        equal(d["schema"], "roletrace.snapshot/1", "schema")
        for part in ("tool", "target", "window", "health", "lost", "overhead", "functions", "edges", "skipped"):
            check(part in d, f"'{part}' is missing in the snapshot")
        w = d["window"]
        close(w["end_unix_ns"] - w["start_unix_ns"], w["duration_ns"], 0.02, "window.duration_ns")
        check(d["health"]["status"] in ("ok", "degraded"), f"health {d['health']}")
        check(all(isinstance(n, int) and n >= 0 for n in d["lost"].values()), f"lost {d['lost']}")
        for row in d["functions"]:
            self.check_row(row)
        calls = {}
        for e in d["edges"]:
            calls[e["callee"]] = calls.get(e["callee"], 0) + e["calls"]
        for name, n in calls.items():
            known = sum(r["calls"] for r in d["functions"] if r["name"] == name)
            check(n <= known, f"edges: {n} calls of '{name}', the function has {known}")

    def check_row(self, r):
        name = r["name"]
        check(r["kind"] in ("fn", "async") and r["coverage"] in ("exact", "sampled", "entry-only"), f"{name}: {r}")
        if r["coverage"] == "entry-only":
            check(all(r[k] is None for k in self.STATS), f"{name}: not measured, so null: {r}")
            return
        ended = r["returned"] + r["unwound"] + r["in_flight"]
        untimed = r["calls"] - ended
        check(untimed == r.get("untimed", untimed), f"{name}: calls {r['calls']}, ended or in flight {ended}, untimed {r.get('untimed')}")
        lost = sum(self.lost.values())
        check(0 <= untimed <= lost, f"{name}: {r['calls']} calls, {ended} accounted for, lost {self.lost}")
        h = r["histogram"]
        counted = h["zero_count"] + sum(h["counts"])
        equal(counted + r.get("histogram_lost", 0), r["returned"], f"{name}: durations in the histogram")
        if not r["returned"]:
            return
        check(r["sum_ns"] >= r["total_ns"] >= 0 and r["sum_ns"] >= r["self_ns"] >= 0, f"{name}: sum, total, self: {r}")
        close(r["mean_ns"], r["sum_ns"] / r["returned"], 0.01 + 1 / max(r["mean_ns"], 1), f"{name}: mean_ns")
        check(r["max_ns"] <= self.doc["window"]["duration_ns"] * 1.05 + 1e6, f"{name}: a call longer than the window: {r['max_ns']}")
        order = [r[k] for k in ("min_ns", "p50_ns", "p95_ns", "p99_ns", "max_ns")]
        check(order == sorted(order), f"{name}: min, p50, p95, p99, max: {order}")
        bounds = [2 ** ((h["offset"] + i) / 2 ** h["scale"]) for i, n in enumerate(h["counts"]) if n]
        if bounds:
            width = 2 ** (1 / 2 ** h["scale"])
            check(bounds[-1] <= r["max_ns"] * 1.001, f"{name}: highest bucket above {bounds[-1]}, max_ns {r['max_ns']}")
            check(h["zero_count"] or bounds[0] * width >= r["min_ns"] * 0.999, f"{name}: lowest bucket up to {bounds[0] * width}, min_ns {r['min_ns']}")

    def exact(self, truth, keys=("calls", "returned", "unwound", "in_flight", "tail_exits")):
        """All figures that the truth tells are the rows' figures."""
        wrong = []
        for name, wanted in truth.items():
            if not wanted.get("calls") and not self.rows(name):
                continue  # a function without a call may be left out
            row = self.row(name)
            wanted = {"unwound" if k == "panicked" else k: v for k, v in wanted.items()}
            got = {k: row[k] for k in keys if k in wanted}
            if got != {k: wanted[k] for k in got}:
                wrong.append(f"{name}: {({k: row[k] for k in keys})}, truth {wanted}")
        check(not wrong, "\n    ".join(["differs from the truth", *wrong, f"lost {self.lost}"]))

    def nothing_lost(self, *but):
        some = {k: v for k, v in self.lost.items() if v and k not in but}
        equal(some, {}, "lost")


def trace(fixture, *args, **kwargs):
    """The usual test: attach, one round of work, detach, end; (snapshot, truth)."""
    t = Trace(fixture, *args, **kwargs)
    truth = fixture.go()
    snapshot = t.stop()
    return snapshot, truth


# BPF objects, to see that nothing of ours is left

_libc = ctypes.CDLL(None, use_errno=True)
_HELD = re.compile(r"^(prog|link)_id:\s*(\d+)$", re.M)
_SYS_BPF, _NEXT_ID = 321, {"prog": 11, "link": 31}


def bpf_ids():
    ids = set()
    for kind, command in _NEXT_ID.items():
        attr = (ctypes.c_uint32 * 32)()
        while _libc.syscall(_SYS_BPF, command, attr, ctypes.sizeof(attr)) == 0:
            ids.add((kind, attr[1]))
            attr[0] = attr[1]
    return ids


def bpf_held():
    """What some process has a file descriptor of (a link's mentions its program)."""
    held = set()
    for path in glob.iglob("/proc/[0-9]*/fdinfo/*"):
        try:
            with open(path) as f:
                held.update(_HELD.findall(f.read()))
        except OSError:
            continue
    return {(kind, int(number)) for kind, number in held}


def bpf_leftovers(before):
    """New programs and links that no process holds."""
    new = bpf_ids() - before
    left = sorted(new - bpf_held() & bpf_ids()) if new else []
    return [f"{kind} {number}" for kind, number in left]
