# SPDX-License-Identifier: BSD-2-Clause
"""L3, L5: targets in other namespaces."""

from harness import Fixture, Trace, equal, need_namespaces, trace

OWN_PIDS = ("unshare", "-m", "-p", "-f", "--mount-proc")


def in_flight_0(truth):
    return {name: {**row, "in_flight": 0} for name, row in truth.items()}


def test_l5_target_in_a_pid_namespace():
    need_namespaces()
    f = Fixture("calls", command=OWN_PIDS)
    equal(f.ns_pid, 1, "its own pid")
    snapshot, truth = trace(f)
    snapshot.exact(in_flight_0(truth))
    equal(snapshot.doc["target"]["pid"], f.pid, "pid")
    equal(snapshot.doc["target"]["ns_pid"], 1, "ns_pid")
    f.finish()


def test_l5_both_in_a_pid_namespace():
    """The kernel's own pids are not those that either of them sees."""
    need_namespaces()
    f = Fixture("calls", command=OWN_PIDS)
    t = Trace(f, "-d", "2", command=("nsenter", "-t", str(f.pid), "-m", "-p"), pid=1)
    truth = f.go()
    snapshot = t.wait()
    snapshot.exact(in_flight_0(truth))
    snapshot.nothing_lost()
    equal(snapshot.doc["target"]["pid"], 1, "pid")
    f.finish()


def test_l3_executable_that_only_the_target_can_see():
    """Under a path that does not exist here, and one that is another file here."""
    need_namespaces()
    for path in ("/mnt/only-there", "/bin/true"):
        script = (
            f'd=$(dirname {path}); cp "$0" /tmp/.e2e-exe; '
            f'if [ -e {path} ]; then mount --bind /tmp/.e2e-exe {path}; '
            f"else mount -t tmpfs none $d; cp /tmp/.e2e-exe {path}; fi; "
            f'rm -f /tmp/.e2e-exe; exec {path} "$@"'
        )
        f = Fixture("calls", command=("unshare", "-m", "sh", "-c", script))
        snapshot, truth = trace(f)
        snapshot.exact(in_flight_0(truth))
        snapshot.nothing_lost()
        f.finish()
