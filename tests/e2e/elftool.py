# SPDX-License-Identifier: BSD-2-Clause
"""Makes variants of executables: stripped, with separate debug files, with compressed sections."""

import os
import shutil
import struct
import subprocess
import zlib

from checks import check

COMPRESSED = 0x800  # SHF_COMPRESSED
ZLIB, ZSTD = 1, 2  # ELFCOMPRESS_*


def run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True)
    check(done.returncode == 0, f"{' '.join(argv)}: {done.stderr}")
    return done.stdout


def build_id(path):
    notes = run("readelf", "-nW", path)
    return notes.partition("Build ID: ")[2].split()[0]


def split(exe, folder, link=True):
    """exe stripped, in folder, and its debug file beside it; (stripped, debug file)."""
    name = os.path.basename(exe)
    stripped, debug = os.path.join(folder, name), os.path.join(folder, name + ".debug")
    run("objcopy", "--only-keep-debug", exe, debug)
    run("strip", "-o", stripped, exe)
    if link:
        run("objcopy", f"--add-gnu-debuglink={debug}", stripped)
    return stripped, debug


def move(path, folder):
    os.makedirs(folder, exist_ok=True)
    return shutil.move(path, os.path.join(folder, os.path.basename(path)))


def zstd_frame(data):
    """A valid frame of blocks that are stored as they are (RFC 8878, 3.1.1)."""
    out = bytearray(struct.pack("<IBI", 0xFD2FB528, 0xA0, len(data)))
    for at in range(0, len(data) or 1, 1 << 17):
        block = data[at : at + (1 << 17)]
        last = at + (1 << 17) >= len(data)
        out += struct.pack("<I", len(block) << 3 | last)[:3] + block
    return bytes(out)


def compress(exe, out, sections, method):
    """A copy of exe whose named sections are compressed."""
    with open(exe, "rb") as f:
        data = bytearray(f.read())
    shoff = struct.unpack_from("<Q", data, 40)[0]
    size, count, names_at = struct.unpack_from("<HHH", data, 58)
    headers = [list(struct.unpack_from("<IIQQQQIIQQ", data, shoff + i * size)) for i in range(count)]
    names = headers[names_at][4]
    found = 0
    for i, h in enumerate(headers):
        at = names + h[0]
        if data[at : data.index(b"\0", at)].decode() not in sections:
            continue
        body = bytes(data[h[4] : h[4] + h[5]])
        packed = zlib.compress(body) if method == ZLIB else zstd_frame(body)
        data += b"\0" * (-len(data) % 8)
        h[2] |= COMPRESSED
        h[4] = len(data)
        data += struct.pack("<IIQQ", method, 0, len(body), h[8]) + packed
        h[5] = len(data) - h[4]
        struct.pack_into("<IIQQQQIIQQ", data, shoff + i * size, *h)
        found += 1
    check(found == len(sections), f"sections {sections} of {exe}: {found} found")
    with open(out, "wb") as f:
        f.write(data)
    os.chmod(out, 0o755)
    return out
