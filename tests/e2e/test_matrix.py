# SPDX-License-Identifier: BSD-2-Clause
"""Every compiler, language, linker and way of linking: exact counts and source lines, as built,
stripped with its debug file, and stripped alone."""

import os

import elftool
from harness import FIXTURES, Fixture, check, equal, roletrace, scratch, trace

MATRIX = os.environ.get("MATRIX", os.path.join(os.path.dirname(FIXTURES), "matrix"))
GLOBS = ("*traced_*", "box::operator+")


def counts(exe, language):
    f = Fixture("calls", exe=exe)
    globs = GLOBS if language == "c++" else GLOBS[:1]
    snapshot, truth = trace(f, functions=globs)
    f.finish()
    snapshot.exact(truth)
    equal(len(snapshot.functions), len(truth), "rows")
    for row in snapshot.functions:
        check("calls." in row.get("file", "") and row["line"] > 5, f"file and line: {row}")


def test_matrix():
    names = sorted(os.listdir(MATRIX))
    check(len(names) > 20, f"the matrix is built: {names}")
    for name in names:
        exe = os.path.join(MATRIX, name)
        try:
            counts(exe, name.split("-")[1])
            stripped, debug = elftool.split(exe, scratch())
            counts(stripped, name.split("-")[1])
            os.unlink(debug)
            alone = roletrace("list", "--exe", stripped, "-f", "*traced_*")
            equal((alone.returncode, "stripped" in alone.stderr), (2, True), alone.stderr)
        except AssertionError as e:
            raise type(e)(f"{name}: {e}") from None


test_matrix.seconds = 400
