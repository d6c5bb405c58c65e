# SPDX-License-Identifier: BSD-2-Clause
"""L3, L5: targets in other namespaces, and on overlay file systems."""

import os
import shutil
import subprocess

from harness import (
    FIXTURES,
    Fixture,
    Skip,
    Trace,
    check,
    equal,
    need_namespaces,
    roletrace,
    scratch,
    trace,
)

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


# ---- overlays: a copy-up leaves the process on an inode that no path of it leads to ----


class Overlay:
    """Files in the lower layer of an overlay that only the target's mount namespace has."""

    def __init__(self, *names, layers="here", program="calls"):
        """layers: where the lower one is: 'here', 'there' (in a file system of the target's
        namespace), 'relative' (told without its folder)."""
        need_namespaces()
        self.folder = scratch()
        lower = os.path.join(self.folder, "low er")
        os.mkdir(lower)
        for name in names:
            shutil.copy(os.path.join(FIXTURES, name), lower)
        for name in ("upper", "work", "merged", "there"):
            os.mkdir(os.path.join(self.folder, name))
        low = {"here": "$PWD/low er", "relative": "low er", "there": "$PWD/there"}[layers]
        script = (
            f'cd "{self.folder}" && mount -t tmpfs none there && cp "low er"/* there && '
            f'mount -t overlay overlay -o "lowerdir={low},upperdir=$PWD/upper,workdir=$PWD/work" '
            f'merged && exec "$PWD/merged/{program}" "$@"'
        )
        if layers == "there":
            script = script.replace(" && mount -t overlay", ' && rm -r "low er" && mount -t overlay')
        try_it = subprocess.run(
            ["unshare", "-m", "sh", "-c", script.replace("exec", "true"), "sh"],
            capture_output=True,
            text=True,
        )
        if try_it.returncode:
            raise Skip(f"no overlay file system here: {try_it.stderr.strip()}")
        for name in ("upper", "work"):
            shutil.rmtree(os.path.join(self.folder, name))
            os.mkdir(os.path.join(self.folder, name))
        if layers == "there":
            os.mkdir(lower)
            for name in names:
                shutil.copy(os.path.join(FIXTURES, name), lower)
        self.target = Fixture(program, command=("unshare", "-m", "sh", "-c", script))

    def copy_up(self, name):
        there = ("nsenter", "-t", str(self.target.pid), "-m")
        path = f"{self.folder}/merged/{name}"
        subprocess.run([*there, "chmod", "750", path], check=True)
        check(os.path.exists(os.path.join(self.folder, "upper", name)), "copied up")


def overlay_exact(overlay, functions=("traced_*",), below=1):
    f = overlay.target
    t = Trace(f, functions=functions)
    truth = f.go()
    snapshot = t.stop()
    snapshot.exact(in_flight_0(truth))
    snapshot.nothing_lost()
    equal(sum("copied up" in line for line in t.stderr), below, f"files below; {t.said()}")
    f.finish()


def test_overlay_without_a_copy_up():
    overlay_exact(Overlay("calls"), below=0)


def test_overlay_copied_up_while_it_runs():
    for layers in ("here", "relative", "there"):
        overlay = Overlay("calls", layers=layers)
        overlay.copy_up("calls")
        overlay_exact(overlay)


def test_overlay_copied_up_before():
    """The upper file is what runs, though the lower one is the same."""
    overlay = Overlay("calls")
    overlay.target.finish()
    overlay = Overlay("calls")
    overlay.copy_up("calls")
    again = Fixture(
        "calls",
        exe=f"{overlay.folder}/merged/calls",
        command=("nsenter", "-t", str(overlay.target.pid), "-m"),
    )
    snapshot, truth = trace(again)
    snapshot.exact(in_flight_0(truth))
    again.finish()
    overlay.target.finish()


def test_overlay_library_copied_up():
    overlay = Overlay("uses_versions", "libversions.so", program="uses_versions")
    overlay.copy_up("libversions.so")
    overlay_exact(overlay, functions=("traced_*", "libversions.so:traced_*"))


def test_overlay_whose_lower_file_is_gone():
    overlay = Overlay("calls")
    overlay.copy_up("calls")
    os.rename(f"{overlay.folder}/low er/calls", f"{overlay.folder}/elsewhere")
    done = roletrace("--pid", overlay.target.pid, "-d", 1, "-f", "traced_*", "-o", "json:/dev/null")
    equal(done.returncode, 1, f"exit code: {done.stderr}")
    check("do not reach the memory" in done.stderr, done.stderr)
    overlay.target.go()
    overlay.target.finish()
