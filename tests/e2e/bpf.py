# SPDX-License-Identifier: BSD-2-Clause
"""The BPF programs and links that the kernel has: to see that nothing of ours is left."""

import ctypes
import glob
import os
import re

_libc = ctypes.CDLL(None, use_errno=True)
_HELD = re.compile(r"^(prog|link)_id:\s*(\d+)$", re.M)
_SYS_BPF, _NEXT_ID = 321, {"prog": 11, "link": 31}
_PROG_BY_ID, _INFO_BY_FD, _ENABLE_STATS = 13, 15, 32


def ids():
    found = set()
    for kind, command in _NEXT_ID.items():
        attr = (ctypes.c_uint32 * 32)()
        while _libc.syscall(_SYS_BPF, command, attr, ctypes.sizeof(attr)) == 0:
            found.add((kind, attr[1]))
            attr[0] = attr[1]
    return found


def held_by_processes():
    """What some process has a file descriptor of (a link's mentions its program)."""
    held = set()
    for path in glob.iglob("/proc/[0-9]*/fdinfo/*"):
        try:
            with open(path) as f:
                held.update(_HELD.findall(f.read()))
        except OSError:
            continue
    return {(kind, int(number)) for kind, number in held}


def leftovers(before):
    """New programs and links that no process holds."""
    new = ids() - before
    left = sorted(new - held_by_processes() & ids()) if new else []
    return [f"{kind} {number}" for kind, number in left]


def keep_statistics():
    """A file descriptor: the kernel times all programs until it is closed. None: it cannot."""
    attr = (ctypes.c_uint32 * 32)()  # type 0: run time
    fd = _libc.syscall(_SYS_BPF, _ENABLE_STATS, attr, ctypes.sizeof(attr))
    return fd if fd >= 0 else None


def _name_of(program):
    attr = (ctypes.c_uint32 * 32)(program)
    fd = _libc.syscall(_SYS_BPF, _PROG_BY_ID, attr, ctypes.sizeof(attr))
    if fd < 0:
        return None
    info = ctypes.create_string_buffer(256)
    attr = (ctypes.c_uint32 * 32)(fd, len(info))
    ctypes.cast(attr, ctypes.POINTER(ctypes.c_uint64))[1] = ctypes.addressof(info)
    err = _libc.syscall(_SYS_BPF, _INFO_BY_FD, attr, ctypes.sizeof(attr))
    os.close(fd)
    return None if err else info.raw[64:80].split(b"\0")[0].decode()


def run_times(pid):
    """{name of a program that the process holds: (runs, ns)}, as the kernel has timed them."""
    found = {}
    for path in glob.iglob(f"/proc/{pid}/fdinfo/*"):
        with open(path) as f:
            fields = dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)
        if "run_time_ns" in fields:
            name = _name_of(int(fields["prog_id"]))
            found[name] = (int(fields["run_cnt"]), int(fields["run_time_ns"]))
    return found
