# SPDX-License-Identifier: BSD-2-Clause
"""--function 'LIB:GLOB'; E11, E12: versions, imported functions, IFUNC."""

import os
import shutil
import subprocess
import sys

import elftool
import harness
from harness import FIXTURES, Fixture, Trace, check, equal, roletrace, scratch, trace, until

LIBC = ("libc.so.6:malloc", "libc.so.6:realloc", "libc.so.6:free")


def copies():
    """The program and its library where they may be changed."""
    folder = scratch()
    for name in ("uses_versions", "libversions.so"):
        shutil.copy(os.path.join(FIXTURES, name), folder)
    return folder, os.path.join(folder, "uses_versions"), os.path.join(folder, "libversions.so")


def refused(f, *functions, code=2):
    args = [a for glob in functions for a in ("-f", glob)]
    done = roletrace("--pid", f.pid, "-d", "0.1", "-o", "json:/dev/null", *args)
    equal(done.returncode, code, f"exit code: {done.stderr}")
    equal(f.breakpoints(), [], "breakpoints")
    lines = done.stderr.strip().splitlines()
    equal(["error" in line for line in lines].count(True), 1, f"one error: {done.stderr}")
    return lines[-1]


def test_lib_malloc_of_libc():
    f = Fixture("mallocs")
    # everybody maps libc: what others do there must not count
    busy = "while True: [bytearray(70000) for _ in range(50)]"
    harness.start([sys.executable, "-c", busy], stdout=subprocess.DEVNULL)
    snapshot, truth = trace(f, functions=LIBC)
    snapshot.exact(truth)
    equal(len(snapshot.functions), 3, "rows")
    snapshot.nothing_lost()
    f.finish()


def test_lib_malloc_by_return_probes():
    f = Fixture("mallocs")
    snapshot, truth = trace(f, "--exit", "uretprobe", functions=LIBC)
    snapshot.exact(truth)
    f.finish()


def test_lib_and_executable_together():
    f = Fixture("uses_versions")
    snapshot, truth = trace(f, functions=["traced_*", "libversions.so:traced_*"])
    snapshot.exact(truth)
    # the library's own traced_shared is a row of its own, never called
    equal(snapshot.row("libversions.so:traced_shared")["calls"], 0, "calls of the other one")
    f.finish()


def test_lib_by_soname_and_by_path():
    folder, exe, lib = copies()
    os.rename(lib, os.path.join(folder, "other-name-1.2.so"))
    os.symlink("other-name-1.2.so", lib)
    f = Fixture("uses_versions", exe=exe)
    globs = ["libversions.so:traced_plain", f"{folder}/*:traced_variant"]
    snapshot, truth = trace(f, functions=globs)
    renamed = {
        n.replace("libversions", "other-name-1.2"): row
        for n, row in truth.items()
        if "plain" in n or "variant" in n
    }
    snapshot.exact(renamed)
    f.finish()


def test_lib_replaced_while_mapped():
    folder, exe, lib = copies()
    f = Fixture("uses_versions", exe=exe)
    os.unlink(lib)
    # another file of that name, with other offsets
    shutil.copy(os.path.join(FIXTURES, "mallocs"), lib)
    snapshot, truth = trace(f, functions=["libversions.so:traced_plain"])
    snapshot.exact({"libversions.so:traced_plain": truth["libversions.so:traced_plain"]})
    f.finish()


def test_lib_with_its_debug_file():
    folder, exe, lib = copies()
    f0 = os.path.join(folder, "d")
    os.mkdir(f0)
    stripped, debug = elftool.split(lib, f0, link=True)
    shutil.move(debug, folder)
    shutil.move(stripped, lib)
    f = Fixture("uses_versions", exe=exe)
    # local: not among the exported names
    snapshot, truth = trace(f, functions=["libversions.so:traced_variant"])
    snapshot.exact({"libversions.so:traced_variant": truth["libversions.so:traced_variant"]})
    f.finish()


def test_lib_that_is_not_mapped():
    f = Fixture("mallocs")
    said = refused(f, "libnothing.so:*")
    check("libnothing.so" in said and "libc.so.6" in said, f"what is mapped: {said}")
    check("matches nothing" in refused(f, "libc.so.6:no_such_function_there"), "no such function")
    f.finish()


def test_lib_needs_the_main_thread():
    f = Fixture("no_main_thread", "early")
    said = refused(f, "libc.so.6:malloc", code=1)
    check("main thread" in said, said)
    f.finish()


# ---- versions ----


def versions(exe, lib):
    both = {f"libversions.so:traced_versioned{v}" for v in ("@V1", "@@V2")}
    for glob, wanted in (
        ("traced_versioned", {"libversions.so:traced_versioned@@V2"}),
        ("traced_versioned@V1", {"libversions.so:traced_versioned@V1"}),
        ("traced_versioned@*", both),
        ("traced_versioned*", both),
    ):
        f = Fixture("uses_versions", exe=exe)
        snapshot, truth = trace(f, functions=["libversions.so:" + glob])
        equal({r["name"] for r in snapshot.functions}, wanted, f"rows for {glob}")
        snapshot.exact({n: row for n, row in truth.items() if n in wanted})
        f.finish()


def test_e11_versions_in_symtab():
    _, exe, lib = copies()
    versions(exe, lib)


def test_e11_versions_in_dynsym():
    _, exe, lib = copies()
    elftool.run("strip", "-s", lib)
    versions(exe, lib)


# ---- imported functions, IFUNC ----


def test_e12_imported_function():
    f = Fixture("mallocs")
    said = refused(f, "malloc")
    check("libc.so.6:malloc" in said, f"who provides it: {said}")
    f.finish()
    f = Fixture("uses_versions")
    said = refused(f, "traced_plain")
    check("libversions.so:traced_plain" in said, f"who provides it: {said}")
    f.finish()


def ifunc(glob, name):
    f = Fixture("uses_versions")
    t = Trace(f, functions=[glob])
    f.go()
    snapshot = t.stop()
    equal(snapshot.functions, [], "rows")
    skipped = {s["name"]: s["reason"] for s in snapshot.doc["skipped"]}
    reason = next((r for n, r in skipped.items() if n.startswith(name)), "")
    check("IFUNC" in reason, f"refused with the reason: {skipped}")
    check(any("IFUNC" in line for line in t.stderr), t.said())
    f.finish()


def test_e12_ifunc_is_not_timed():
    ifunc("libversions.so:traced_chosen", "libversions.so:traced_chosen")


def test_e12_memcpy_is_not_timed():
    ifunc("libc.so.6:memcpy", "libc.so.6:memcpy")


# ---- L12: libraries come and go ----


def plugin_fixture(*words):
    f = Fixture("opens_plugin", os.path.abspath(os.path.join(FIXTURES, "libplugin.so")))
    for word in words:
        f.ask(word)
    return f


PLUGIN = ("traced_own", "libplugin.so:traced_plugin")


def test_l12_library_unmapped_and_mapped_elsewhere():
    f = plugin_fixture("open")
    t = Trace(f, functions=PLUGIN)
    first = f.ask("go")
    f.ask("close")
    f.ask("go")
    f.ask("open")
    last = f.ask("go")
    check(first["at"] != last["at"], "the test sees nothing: the same address")
    equal(last["truth"]["libplugin.so:traced_plugin"]["calls"], 80, "calls")
    snapshot = t.stop()
    snapshot.exact(last["truth"])
    snapshot.nothing_lost()
    equal(snapshot.doc["health"]["reasons"], [], "reasons")
    f.finish()


def test_l12_library_unmapped_at_the_end():
    f = plugin_fixture("open")
    t = Trace(f, functions=PLUGIN)
    f.ask("go")
    truth = f.ask("close")["truth"]
    t.stop().exact(truth)
    f.finish()


def test_l12_library_mapped_after_the_attach():
    """From its first call on, whatever way it is named."""
    path = os.path.abspath(os.path.join(FIXTURES, "libplugin.so"))
    for lib in ("libplugin.so", path):
        f = plugin_fixture()
        t = Trace(f, functions=("traced_own", f"{lib}:traced_plugin"))
        check(any("not mapped yet" in line for line in t.stderr), t.said())
        f.ask("go")
        f.ask("open")
        f.go()
        f.ask("close")
        f.ask("open")
        truth = f.go()
        snapshot = t.stop()
        snapshot.exact(truth)
        snapshot.nothing_lost()
        equal(snapshot.doc["health"]["reasons"], [], "reasons")
        f.finish()


def test_l12_the_library_alone():
    """Nothing of the executable is asked for."""
    f = plugin_fixture()
    t = Trace(f, functions=PLUGIN[1:])
    f.ask("open")
    name = PLUGIN[1]
    truth = {name: f.go()[name]}
    until(lambda: any("is mapped now" in line for line in t.stderr), 5, "said so within a second")
    t.stop().exact(truth)
    f.finish()


def test_l12_library_that_never_comes():
    f = plugin_fixture()
    t = Trace(f, functions=PLUGIN)
    truth = f.go()
    snapshot = t.stop()
    snapshot.exact(truth)
    reasons = snapshot.doc["health"]["reasons"]
    check(any("not mapped" in r and "libplugin.so" in r for r in reasons), f"reasons: {reasons}")
    f.finish()
