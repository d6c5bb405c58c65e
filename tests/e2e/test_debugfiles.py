# SPDX-License-Identifier: BSD-2-Clause
"""E4, E6, L2: symbols and lines from separate debug files, compressed sections; never another
file's."""

import os
import shutil

import elftool
import harness
from harness import FIXTURES, Fixture, Trace, check, equal, roletrace, scratch, trace

DEBUG_DIR = "/usr/lib/debug"
CALLS = os.path.join(FIXTURES, "calls-debug")


def remove_later(path):
    """Also the folders above it that it leaves empty."""

    def remove():
        if os.path.lexists(path):
            os.unlink(path)
        folder = os.path.dirname(path)
        while folder != DEBUG_DIR and not os.listdir(folder):
            os.rmdir(folder)
            folder = os.path.dirname(folder)

    harness._cleanups.append(remove)
    return path


def build_id_path(exe):
    id = elftool.build_id(exe)
    return f"{DEBUG_DIR}/.build-id/{id[:2]}/{id[2:]}.debug"


def install(debug, path):
    """Puts a debug file under /usr/lib/debug for the time of the test."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    shutil.move(debug, remove_later(path))
    return path


def check_fires(exe, *args, debug=None):
    """All its functions are found, fire exactly, and have their lines."""
    f = Fixture("calls", exe=exe)
    t = Trace(f, *args)
    truth = f.go()
    snapshot = t.stop()
    snapshot.exact(truth)
    equal(len(snapshot.functions), 3, "rows")
    for row in snapshot.functions:
        check(
            row.get("file", "").endswith("calls.c") and 5 < row["line"] < 30,
            f"file and line: {row.get('file')}:{row.get('line')}",
        )
    if debug:
        check(any(debug in line for line in t.stderr), f"{debug} is to be named; {t.said()}")
    f.finish()


def check_rejected(exe, debug, why, *args):
    f = Fixture("calls", exe=exe)
    done = roletrace("--pid", f.pid, "-d", "0.1", "-f", "traced_*", *args)
    equal(done.returncode, 2, f"exit code: {done.stderr}")
    lines = done.stderr.strip().splitlines()
    check(len(lines) == 1 and debug in lines[0] and why in lines[0], f"one line: {done.stderr}")
    equal(f.breakpoints(), [], "breakpoints")
    f.finish()


def test_e4_debuglink_beside_the_executable():
    exe, debug = elftool.split(CALLS, scratch())
    check_fires(exe, debug=debug)


def test_e4_debuglink_in_dot_debug():
    folder = scratch()
    exe, debug = elftool.split(CALLS, folder)
    check_fires(exe, debug=elftool.move(debug, f"{folder}/.debug"))


def test_e4_debuglink_in_the_global_folder():
    folder = scratch()
    exe, debug = elftool.split(CALLS, folder)
    check_fires(exe, debug=install(debug, DEBUG_DIR + debug))


def test_e4_build_id():
    exe, debug = elftool.split(CALLS, scratch(), link=False)
    check_fires(exe, debug=install(debug, build_id_path(CALLS)))


def test_e4_debug_file_named_by_the_user():
    exe, debug = elftool.split(CALLS, scratch(), link=False)
    debug = elftool.move(debug, scratch())
    check_fires(exe, "--debug-file", debug, debug=debug)
    # the unstripped build will do as well
    check_fires(exe, "--debug-file", CALLS)


def test_e4_in_the_root_of_the_target():
    root = scratch()
    source = os.path.join(FIXTURES, "calls-static-debug")
    exe, debug = elftool.split(source, root, link=False)
    there = root + build_id_path(source)
    os.makedirs(os.path.dirname(there))
    shutil.move(debug, there)
    f = Fixture("calls", root, "/" + os.path.basename(exe), exe="/usr/sbin/chroot")
    snapshot, truth = trace(f)
    snapshot.exact(truth)
    equal(len(snapshot.functions), 3, "rows")
    f.finish()


def test_e4_wrong_crc():
    exe, debug = elftool.split(CALLS, scratch())
    with open(debug, "ab") as file:
        file.write(b"!")
    check_rejected(exe, debug, "CRC")


def test_e4_wrong_build_id():
    exe, _ = elftool.split(CALLS, scratch(), link=False)
    _, other = elftool.split(os.path.join(FIXTURES, "calls-exported"), scratch(), link=False)
    check_rejected(exe, install(other, build_id_path(CALLS)), "build-id")


def test_e4_a_named_debug_file_that_is_anothers():
    exe, _ = elftool.split(CALLS, scratch(), link=False)
    other = os.path.join(FIXTURES, "calls-exported")
    check_rejected(exe, other, "build-id", "--debug-file", other)
    check_rejected(exe, __file__, "not an ELF file", "--debug-file", __file__)
    check_rejected(exe, "/nonexistent", "No such file", "--debug-file", "/nonexistent")
    fifo = os.path.join(scratch(), "fifo")
    os.mkfifo(fifo)
    check_rejected(exe, fifo, "not a plain file", "--debug-file", fifo)


def test_e4_a_wrong_one_does_not_hide_the_right_one():
    folder = scratch()
    exe, debug = elftool.split(CALLS, folder)
    right = shutil.copy(debug, install_folder(folder))
    with open(debug, "ab") as file:
        file.write(b"!")
    check_fires(exe, debug=right)


def install_folder(folder):
    os.makedirs(f"{folder}/.debug", exist_ok=True)
    return f"{folder}/.debug"


def test_e4_stripped_without_a_debug_file():
    folder = scratch()
    exe, debug = elftool.split(CALLS, folder, link=False)
    os.unlink(debug)
    f = Fixture("calls", exe=exe)
    t = Trace(f, functions=())
    truth = f.go()
    snapshot = t.stop()
    equal((snapshot.functions, sorted(truth)[:1]), ([], ["traced_fifty"]), "rows")
    said = [line for line in t.stderr if "stripped" in line]
    check(len(said) == 1 and "--debug-file" in said[0] and "LIB:" in said[0], t.said())
    f.finish()


def test_e4_exported_names_are_said_to_be_all():
    exe = os.path.join(scratch(), "calls")
    elftool.run("strip", "-o", exe, os.path.join(FIXTURES, "calls-exported"))
    f = Fixture("calls", exe=exe)
    t = Trace(f)
    truth = f.go()
    snapshot = t.stop()
    snapshot.exact(truth)
    check(any("exported functions have names" in line for line in t.stderr), t.said())
    f.finish()


# ---- compressed sections ----


def test_e6_zlib_debug_sections():
    exe = os.path.join(scratch(), "calls")
    elftool.run("objcopy", "--compress-debug-sections=zlib", CALLS, exe)
    check_fires(exe)


def test_e6_zlib_gnu_debug_sections():
    exe = os.path.join(scratch(), "calls")
    elftool.run("objcopy", "--compress-debug-sections=zlib-gnu", CALLS, exe)
    check_fires(exe)


def test_e6_zlib_debug_file():
    exe, debug = elftool.split(CALLS, scratch(), link=False)
    elftool.run("objcopy", "--compress-debug-sections=zlib", debug)
    check_fires(exe, "--debug-file", debug)


def test_e6_zlib_symtab():
    exe = os.path.join(scratch(), "calls")
    check_fires(elftool.compress(CALLS, exe, [".symtab", ".strtab"], elftool.ZLIB))
    check_fires(elftool.compress(CALLS, exe, [".strtab"], elftool.ZLIB))


def is_said_or_read(t, rows):
    """Either this libelf reads zstd, or one line says that it does not."""
    said = [line for line in t.stderr if "zstd" in line]
    if any("file" in r for r in rows):
        return not said
    return len(said) == 1


def test_e6_zstd_debug_sections():
    exe = os.path.join(scratch(), "calls")
    sections = [".debug_info", ".debug_abbrev", ".debug_line", ".debug_str"]
    f = Fixture("calls", exe=elftool.compress(CALLS, exe, sections, elftool.ZSTD))
    t = Trace(f)
    truth = f.go()
    snapshot = t.stop()
    snapshot.exact(truth)
    check(is_said_or_read(t, snapshot.functions), f"zstd is to be read or named; {t.said()}")
    f.finish()


def test_e6_zstd_symtab_leaves_the_exported_names():
    exe = os.path.join(scratch(), "calls")
    source = os.path.join(FIXTURES, "calls-exported")
    f = Fixture("calls", exe=elftool.compress(source, exe, [".symtab", ".strtab"], elftool.ZSTD))
    t = Trace(f)
    truth = f.go()
    snapshot = t.stop()
    snapshot.exact(truth)
    said = [line for line in t.stderr if "zstd" in line]
    read = not any("exported" in line for line in t.stderr)
    check(len(said) == (0 if read else 1), t.said())
    f.finish()


def test_e6_zstd_symtab_without_exported_names():
    exe = os.path.join(scratch(), "calls")
    elftool.compress(CALLS, exe, [".symtab", ".strtab"], elftool.ZSTD)
    done = roletrace("list", "--exe", exe, "-f", "traced_*")
    check(
        done.returncode == 0 or (done.returncode == 2 and "zstd" in done.stderr),
        f"zstd is to be read or named: {done.stderr}",
    )


# ---- the same path, another file ----


def test_l2_no_stale_symbols():
    folder = os.path.join("/dev/shm", os.path.basename(scratch()))
    os.makedirs(folder)
    harness._cleanups.append(lambda: shutil.rmtree(folder, ignore_errors=True))
    exe = os.path.join(folder, "role")
    inodes = set()
    for i in range(20):
        source = ("calls-debug", "calls-no-pie", "calls-high")[i % 3]
        if os.path.exists(exe) and i % 2:
            os.unlink(exe)  # tmpfs may give the number of the inode again
        shutil.copyfile(os.path.join(FIXTURES, source), exe)
        os.chmod(exe, 0o755)
        inodes.add(os.stat(exe).st_ino)
        f = Fixture("role", exe=exe)
        snapshot, truth = trace(f)
        snapshot.exact(truth)
        equal(snapshot.doc["target"]["build_id"], elftool.build_id(exe), "the build-id")
        f.finish()
    check(len(inodes) < 20, "the same inode, more than once")


test_l2_no_stale_symbols.seconds = 240
