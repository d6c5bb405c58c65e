# SPDX-License-Identifier: BSD-2-Clause
"""What an end-to-end test is made of: a Fixture (the target), a Trace (roletrace on it), a Snapshot
(what it wrote). Every Trace is checked, whatever its test is about: the exit code, the contract of
the snapshot file, and that the target's code is byte for byte that of its file again."""

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

from checks import Failure, Skip, check, close, equal, until  # noqa: F401 (for the tests)
from snapshot import Snapshot

ROLETRACE = os.path.abspath(os.environ.get("ROLETRACE", "build/roletrace"))
FIXTURES = os.environ.get("FIXTURES", "build/tests/fixtures")
CARGO_BIN = os.environ.get("CARGO_BIN", "build/cargo/release")
ATTACHED = re.compile(r"attached to (\d+) \((.*)\): (\d+) functions?, (\d+) probes?, ([\d.]+) ms")

exits = None  # how exits are seen unless a test says it, for the modules that have EXITS
always = []  # arguments of every Trace
_cleanups = []  # of the running test, last one first


def scratch():
    """A directory for this test."""
    path = tempfile.mkdtemp(prefix="roletrace-e2e-")
    _cleanups.append(lambda: shutil.rmtree(path, ignore_errors=True))
    return path


def at_end(function):
    """Calls it at the end of the test, before what was done earlier is undone."""
    _cleanups.append(function)


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


def need_namespaces():
    """Mounts of its own: not to be had where the root folder is no mount point (a plain chroot)."""
    done = subprocess.run(["unshare", "-m", "-p", "-f", "true"], capture_output=True, text=True)
    if done.returncode:
        raise Skip(f"no namespaces of its own: {done.stderr.strip()}")


class Target:
    """A process to trace: what a Trace needs to know of it."""

    def __init__(self, process):
        self.process, self.pid = process, process.pid

    def breakpoints(self):
        """Addresses where code in memory is not what its file says: executable and libraries."""
        changed = []
        tid = next(t for t in os.listdir(f"/proc/{self.pid}/task") if is_alive(self.pid, t))
        base = f"/proc/{self.pid}/task/{tid}"
        exe = os.stat(f"{base}/exe")
        with open(f"{base}/maps") as maps, open(f"{base}/mem", "rb") as memory:
            for line in maps:
                span, rights, offset, _, inode = line.split()[:5]
                if "x" not in rights or inode == "0":
                    continue
                path = f"/proc/{self.pid}/map_files/{span}"
                if int(inode) == exe.st_ino:
                    path = f"{base}/exe"
                elif not os.path.lexists(path):
                    continue  # no main thread: libraries are not probed then
                lo, hi = (int(x, 16) for x in span.split("-"))
                memory.seek(lo)
                there = memory.read(hi - lo)
                with open(path, "rb") as file:
                    file.seek(int(offset, 16))
                    told = file.read(hi - lo).ljust(hi - lo, b"\0")
                if there != told:
                    changed += [lo + i for i in range(hi - lo) if there[i] != told[i]]
        return changed


class Fixture(Target):
    """A target that speaks the protocol of fixtures/c/fixture.h."""

    def __init__(self, name, *args, exe=None, command=()):
        """command: a prefix that starts it elsewhere, e.g. in namespaces of its own."""
        self.exe = exe or os.path.join(FIXTURES, name)
        argv = [*command, os.path.abspath(self.exe), *map(str, args)]
        super().__init__(start(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        self.buffer = b""
        words = self.line().split()
        check(words[:1] == ["ready"], f"{name} said {words}")
        self.ns_pid = int(words[1])  # what it calls itself
        if command:
            self.pid = last_descendant(self.pid)
        else:
            equal(self.ns_pid, self.pid, "pid")

    def say(self, word):
        self.process.stdin.write(word.encode() + b"\n")
        self.process.stdin.flush()

    def line(self, seconds=60):
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.buffer:
                left = end - time.monotonic()
                check(
                    left > 0 and selector.select(left), f"{self.exe} said nothing for {seconds} s"
                )
                data = os.read(self.process.stdout.fileno(), 1 << 16)
                if not data:
                    raise Failure(f"{self.exe} ended: {self.process.wait()}")
                self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode()

    def has_line(self):
        """Whether it has said something that was not taken yet."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            return b"\n" in self.buffer or bool(selector.select(0))

    def ask(self, word):
        """Says the word, returns the JSON of the answer."""
        self.say(word)
        return json.loads(self.line())

    def run_undisturbed(self):
        """Ahead of whatever else runs on this machine, for tests that look at durations."""
        try:
            os.sched_setscheduler(self.pid, os.SCHED_FIFO, os.sched_param(1))
        except OSError:
            pass  # not allowed here: disturbed, then

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


def last_descendant(pid):
    """The child of the child ... of a process."""
    while True:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            children = f.read().split()
        if not children:
            return pid
        pid = int(children[0])


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
    return subprocess.run(
        [ROLETRACE, *map(str, args)], capture_output=True, text=True, timeout=seconds, **kwargs
    )


class Trace:
    """roletrace attached to a target; by default to all its traced_* functions, no limits."""

    def __init__(
        self,
        target,
        *args,
        functions=("traced_*",),
        budget="off",
        wait=True,
        command=(),
        pid=None,
    ):
        """command: a prefix that starts it elsewhere; pid: what the target is called there."""
        self.target = target
        self.pid = pid or target.pid
        self.file = os.path.join(scratch(), "trace.json")
        argv = [*command, ROLETRACE, "--pid", str(self.pid), "-o", f"json:{self.file}"]
        argv += ["--budget", budget] if budget else []
        argv += always
        argv += ["--exit", exits] if exits and "--exit" not in args else []
        for f in functions:
            argv += ["-f", f]
        self.process = start(
            [*argv, *map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.stderr, self.stdout = [], []
        self.readers = [
            threading.Thread(target=self._read, args=a, daemon=True)
            for a in ((self.process.stderr, self.stderr), (self.process.stdout, self.stdout))
        ]
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
        check(
            self.attached, f"roletrace ended with {self.process.poll()} unattached; {self.said()}"
        )
        equal(int(self.attached[1]), self.pid, "the pid attached to")

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


def trace(fixture, *args, **kwargs):
    """The usual test: attach, one round of work, detach, end; (snapshot, truth)."""
    t = Trace(fixture, *args, **kwargs)
    truth = fixture.go()
    snapshot = t.stop()
    return snapshot, truth
