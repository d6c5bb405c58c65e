# SPDX-License-Identifier: BSD-2-Clause
"""The BPF programs and links that the kernel has: to see that nothing of ours is left."""

import ctypes
import glob
import re

_libc = ctypes.CDLL(None, use_errno=True)
_HELD = re.compile(r"^(prog|link)_id:\s*(\d+)$", re.M)
_SYS_BPF, _NEXT_ID = 321, {"prog": 11, "link": 31}


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
