# SPDX-License-Identifier: BSD-2-Clause
"""Which roletrace it is: one answer, whatever is asked, and not that of the build before."""

import os
import pathlib
import re
import subprocess

from checks import check, equal
from cli import ROLETRACE, ROOT, Directory
from stacks import add_stacks


def test_one_version():
    d = Directory()
    d.snapshot(add_stacks)
    said = d.run("--version").stdout.decode().split()
    equal(said[0], "roletrace", "--version")
    for name in ("a.html", "a.speedscope.json"):
        done = d.run("flame", "in.json", "-o", name)
        equal(done.returncode, 0, f"flame -o {name}: {done.stderr}")
    check(f'"version":"{said[1]}"' in (d / "a.html").read_text().replace(": ", ":"), "the page's version")
    check(" ".join(said) in (d / "a.speedscope.json").read_text(), "the speedscope file's version")
    found = set(re.findall(rb"0\.1\.0\+[0-9a-f]{7,}", pathlib.Path(ROLETRACE).read_bytes()))
    check(found <= {said[1].encode()}, f"version strings in the program: {found}")


def test_another_commit_rebuilds_what_says_so():
    """And nothing else: what make would do if the commit were another."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k not in ("O", "V")}
    done = subprocess.run(
        ["make", "-n", "V=1", f"O={os.path.dirname(ROLETRACE)}", "VERSION=0.1.0+another", ROLETRACE],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
    )
    equal(done.returncode, 0, f"make -n: {done.stderr}")
    equal(re.findall(r"-c -o \S+ (\S+\.c)", done.stdout), ["daemon/base/version.c"], "what is compiled")
    check(re.search(r"-o \S+/roletrace ", done.stdout), "the program is not linked again")
