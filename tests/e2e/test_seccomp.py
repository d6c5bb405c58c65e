# SPDX-License-Identifier: BSD-2-Clause
"""P18: targets under a filter that kills on all but a few system calls."""

from harness import Fixture, Trace, check, equal, roletrace, trace

THREADS = ((), ("thread",))


def test_p18_default_exits():
    for args in THREADS:
        f = Fixture("seccomp", *args)
        snapshot, truth = trace(f)
        snapshot.exact(truth)
        snapshot.nothing_lost()
        f.finish()


def test_p18_return_probes():
    """Where the kernel lets the trampoline's system call pass, they work; else they are refused:
    either way the target lives."""
    for args in THREADS:
        f = Fixture("seccomp", *args)
        t = Trace(f, "--exit", "uretprobe", wait=False)
        try:
            t.wait_attached()
        except Exception:
            check("seccomp" in t.said(), t.said())
            equal(t.process.wait(), 4, "exit code")
            f.go()
        else:
            truth = f.go()
            t.stop().exact(truth)
        f.finish()


def test_p18_return_probes_are_refused_where_they_kill():
    for args in THREADS:
        f = Fixture("seccomp", *args)
        argv = ("--pid", f.pid, "-d", 1, "-f", "traced_*", "-o", "json:/dev/null")
        done = roletrace(*argv, "--exit", "uretprobe", "--assume-seccomp-kills")
        equal(done.returncode, 4, f"exit code: {done.stderr}")
        check("under a seccomp filter" in done.stderr, done.stderr)
        equal(f.breakpoints(), [], "breakpoints")
        f.go()
        f.finish()


def test_p18_return_probes_without_a_filter():
    """The same kernel, but nobody watches: it works and warns."""
    f = Fixture("calls")
    t = Trace(f, "--exit", "uretprobe", "--assume-seccomp-kills")
    truth = f.go()
    t.stop().exact(truth)
    check(any("seccomp filter" in line for line in t.stderr), t.said())
    f.finish()
