#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the tests of what roletrace does without a target: no root. usage: run.py [-k PART]...
-k: only tests whose name contains PART. ROLETRACE: the program. PROMTOOL: Prometheus' promtool."""

import argparse
import importlib
import pathlib
import sys
import traceback

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent / "e2e"))  # behind our own: some files share a name

from checks import Failure, Skip  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", action="append", default=[])
    parts = parser.parse_args().k
    passed, failed, skipped = 0, 0, 0
    for path in sorted(HERE.glob("test_*.py")):
        for name, test in list(vars(importlib.import_module(path.stem)).items()):
            if not name.startswith("test_") or (parts and not any(p in name for p in parts)):
                continue
            try:
                test()
                passed += 1
                print(f"ok   {name[5:]}")
            except Skip as why:
                skipped += 1
                print(f"SKIP {name[5:]}: {why}")
            except Exception as e:
                failed += 1
                why = str(e) if isinstance(e, Failure) else traceback.format_exc()
                print(f"FAIL {name[5:]}\n    " + why.strip().replace("\n", "\n    "))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
