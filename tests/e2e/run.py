#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the end-to-end tests one after the other. usage: run.py [-k PART]... [-l]
[--slow]. -k: only tests whose name contains PART; -l: list them; --slow: those of slow_*.py. ROLETRACE, FIXTURES, CARGO_BIN: where the
built things are."""

import argparse
import importlib
import os
import pathlib
import signal
import sys
import time
import traceback

import bpf
import harness


def tests(parts, kind):
    for path in sorted(pathlib.Path(__file__).parent.glob(f"{kind}_*.py")):
        module = importlib.import_module(path.stem)
        for name, function in vars(module).items():
            if name.startswith("test_") and callable(function):
                for exits in getattr(module, "EXITS", (None,)):
                    full = f"{name} ({exits})" if exits else name
                    if not parts or any(p in full for p in parts):
                        yield full, function, exits


def on_alarm(*_):
    raise harness.Failure("timed out")


def run(function):
    """One test; None or why it failed. Skip: what it needs is not there."""
    before = bpf.ids()
    signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(getattr(function, "seconds", 120))
    why = skip = None
    try:
        function()
    except harness.Skip as e:
        skip = e
    except harness.Failure as e:
        why = str(e)
    except Exception:
        why = traceback.format_exc()
    finally:
        signal.alarm(0)
        harness.clean_up()
    end = time.monotonic() + 5
    while left := bpf.leftovers(before):
        if time.monotonic() > end:
            return f"{why or ''}\n    BPF objects left: {', '.join(left)}"
        time.sleep(0.2)
    if skip:
        raise skip
    return why


skipped = 0
SECOND_TRIES = 4  # the machine may have been busy with something else; a fault fails twice


def passes(name, function, exits):
    global skipped
    start = time.monotonic()
    harness.exits = exits
    try:
        why = run(function)
    except harness.Skip as e:
        print(f"SKIP {name[5:]}: {e}", flush=True)
        skipped += 1
        return True
    print(f"{'FAIL' if why else 'ok':5}{name[5:]}  {time.monotonic() - start:.1f} s", flush=True)
    if why:
        print("    " + why.strip().replace("\n", "\n    "), flush=True)
    return not why


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", action="append", default=[])
    parser.add_argument("-l", action="store_true")
    parser.add_argument("--slow", action="store_true")
    args = parser.parse_args()
    todo = list(tests(args.k, "slow" if args.slow else "test"))
    if args.l:
        print("\n".join(name for name, *_ in todo))
        return 0
    if os.geteuid() != 0:
        print(f"NOT RUN: the {len(todo)} end-to-end tests attach to processes and need root")
        print(f"0 passed, 0 failed, {len(todo)} skipped")
        return 0
    if not todo:
        print(f"no test is called like {args.k}", file=sys.stderr)
        return 2
    failed = [one for one in todo if not passes(*one)]
    if failed and len(failed) <= SECOND_TRIES:
        print(f"once more, at the end: {', '.join(name[5:] for name, *_ in failed)}", flush=True)
        time.sleep(5)
        failed = [one for one in failed if not passes(*one)]
    passed = len(todo) - len(failed) - skipped
    print(f"{passed} passed, {len(failed)} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
