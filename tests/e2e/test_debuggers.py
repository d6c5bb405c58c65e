# SPDX-License-Identifier: BSD-2-Clause
"""Others who write breakpoints into the target: gdb, and what any ptrace debugger does."""

import ctypes
import os
import shutil
import signal
import subprocess

from harness import Fixture, Skip, Trace, check, equal, start, until

# one look at the breakpoints each ten seconds
REARMED_S = 15


class Gdb:
    """With a breakpoint on the first instruction of traced_three; the target runs on."""

    def __init__(self, pid):
        if not shutil.which("gdb"):
            raise Skip("no gdb: install it for this test")
        self.process = start(
            ["gdb", "-q", "-nx", "-p", str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.say("set pagination off", "set confirm off", "set debuginfod enabled off")
        self.say("break *traced_three", "printf \"SET\\n\"", "continue")
        until(lambda: "SET" in self.process.stdout.readline(), 30, "gdb's breakpoint")

    def say(self, *lines):
        self.process.stdin.write("".join(line + "\n" for line in lines))
        self.process.stdin.flush()

    def leave(self):
        self.process.send_signal(signal.SIGINT)
        until(lambda: "SIGINT" in self.process.stdout.readline(), 20, "gdb stops the target")
        self.say("delete", "detach", "quit")
        equal(self.process.wait(20), 0, "exit code of gdb")


class Ptrace:
    """What a debugger does to a word of code, without one."""

    PEEK, POKE, ATTACH, DETACH = 1, 4, 16, 17

    def __init__(self, pid, address):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.restype = ctypes.c_long
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.pid, self.address = pid, address
        self.saved = self.stopped(lambda: self.change(0xCC))

    def stopped(self, do):
        equal(self.libc.ptrace(self.ATTACH, self.pid, None, None), 0, "PTRACE_ATTACH")
        os.waitpid(self.pid, 0x40000000)  # __WALL
        result = do()
        equal(self.libc.ptrace(self.DETACH, self.pid, None, None), 0, "PTRACE_DETACH")
        return result

    def change(self, byte):
        word = self.libc.ptrace(self.PEEK, self.pid, self.address, None) & (2**64 - 1)
        equal(self.libc.ptrace(self.POKE, self.pid, self.address, word & ~0xFF | byte), 0, "POKE")
        return word & 0xFF

    def leave(self):
        self.stopped(lambda: self.change(self.saved))


def removed_under_us(debugger, f):
    """Its breakpoint was there before ours; when it goes, the byte it saved takes ours along."""
    t = Trace(f)
    armed = len(f.breakpoints())
    f.go()
    debugger.leave()
    until(lambda: len(f.breakpoints()) < armed, 5, "a breakpoint is gone")
    missed = f.go()
    until(lambda: len(f.breakpoints()) == 6, REARMED_S, f"armed again; {t.said()}")
    truth = f.go()
    snapshot = t.stop()
    each = truth["traced_three"]["calls"] - missed["traced_three"]["calls"]
    snapshot.exact(
        {
            "traced_three": {"calls": truth["traced_three"]["calls"] - each},
            "traced_fifty": truth["traced_fifty"],
            "traced_many": truth["traced_many"],
        }
    )
    equal(snapshot.row("traced_three")["coverage"], "sampled", "coverage where calls were missed")
    equal(snapshot.row("traced_many")["coverage"], "exact", "coverage of the others")
    reasons = snapshot.doc["health"]["reasons"]
    check(any("'traced_three'" in r and "missed" in r for r in reasons), f"reasons: {reasons}")
    equal(snapshot.lost["sites_disarmed"], 1, "sites found disarmed")
    check(any("overwritten" in line for line in t.stderr), t.said())
    f.finish()


def test_gdb_breakpoint_removed_while_tracing():
    f = Fixture("calls")
    removed_under_us(Gdb(f.pid), f)


def test_ptrace_breakpoint_removed_while_tracing():
    f = Fixture("calls")
    t = Trace(f, functions=["traced_three"])
    first = min(f.breakpoints())
    t.stop()
    removed_under_us(Ptrace(f.pid, first), f)


def test_gdb_breakpoint_set_after_and_removed_before_us():
    """gdb's saved byte is our breakpoint: nothing is lost, nothing stays."""
    f = Fixture("calls")
    t = Trace(f)
    gdb = Gdb(f.pid)
    f.go()
    gdb.leave()
    equal(len(f.breakpoints()), 6, "breakpoints of ours")
    truth = f.go()
    snapshot = t.stop()
    snapshot.exact(truth)
    equal(snapshot.lost["sites_disarmed"], 0, "sites found disarmed")
    f.go()
    f.finish()
