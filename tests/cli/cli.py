# SPDX-License-Identifier: BSD-2-Clause
"""Runs roletrace on a saved snapshot, in a directory of its own."""

import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ROLETRACE = os.path.abspath(os.environ.get("ROLETRACE", ROOT / "build/roletrace"))
SAVED = ROOT / "tests/fixtures/snapshots/demo_role.json"


class Directory:
    """Where the test's files are; gone with it."""

    def __init__(self):
        self.keeper = tempfile.TemporaryDirectory(prefix="roletrace-cli-")
        self.path = pathlib.Path(self.keeper.name)

    def __truediv__(self, name):
        return self.path / name

    def run(self, *args, **kwargs):
        return subprocess.run(
            [ROLETRACE, *map(str, args)], cwd=self.path, capture_output=True, timeout=60, **kwargs
        )

    def names(self):
        return sorted(os.listdir(self.path))

    def snapshot(self, change=lambda doc: None, name="in.json"):
        """A changed copy of the saved one; its content."""
        doc = json.loads(SAVED.read_text())
        change(doc)
        (self / name).write_text(json.dumps(doc))
        return doc
