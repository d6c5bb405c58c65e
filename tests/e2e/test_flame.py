# SPDX-License-Identifier: BSD-2-Clause
"""Flamegraphs straight from tracing: they hold what the snapshot of the same run holds."""

import gzip
import json
import os
import re

from harness import Fixture, Trace, check, equal, roletrace, scratch


def stacks_of(doc):
    """{names: value} of the kind that is shown when none is asked for."""
    found = {}
    profiles = doc.get("profiles") or {}
    if "cpu" in profiles:
        for s in profiles["cpu"]["stacks"]:
            names = [profiles["frames"][i]["name"] for i in s["frames"]]
            names = [f"[truncated: {s.get('truncated')}]"] * ("truncated" in s) + names
            found[tuple(names)] = found.get(tuple(names), 0) + s["value"]
    else:
        for p in doc.get("paths", []):
            found[tuple(p["frames"])] = p["self_ns"]
    return {names: value for names, value in found.items() if value}


def unescape(text):
    return re.sub(r"\\(x[0-9a-f]{2}|\\)", lambda m: "\\" if m[1] == "\\" else chr(int(m[1][1:], 16)), text)


def read_folded(text):
    lines = [line.rsplit(" ", 1) for line in text.splitlines()]
    return {tuple(unescape(n) for n in names.split(";")): int(value) for names, value in lines}


def test_flamegraphs_of_a_run():
    f = Fixture("calls")
    path = os.path.join(scratch(), "out")
    forms = [".folded", ".html", ".svg", ".pb.gz", ".speedscope.json"]
    t = Trace(f, "-i", "0.1", *(word for form in forms for word in ("-o", path + form)))
    f.go()
    doc = t.stop().doc
    f.finish()
    wanted = stacks_of(doc)
    with open(path + ".folded") as file:
        equal(read_folded(file.read()), wanted, "stacks")
    with open(path + ".html") as file:
        text = file.read()
    page = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)[1])
    first = next((g for g in page["graphs"] if g["kind"] == page["first"]), {"stacks": []})
    equal(sum(s[1] for s in first["stacks"]), sum(wanted.values()), "of all in the page")
    equal(bool(page["graphs"]), bool(wanted), "graphs when there are stacks")
    with open(path + ".svg") as file:
        text = file.read()
    check(text.endswith("</svg>\n"), "a whole picture")
    equal("none were recorded" in text, not wanted, "what the picture says")
    with open(path + ".speedscope.json") as file:
        profiles = json.load(file)["profiles"]
    equal(sum(profiles[0]["weights"]) if profiles else 0, sum(wanted.values()), "weights")
    with gzip.open(path + ".pb.gz") as file:
        raw = file.read()
    for names in wanted:
        check(names[-1].encode() in raw, f"{names[-1]} is not in the pprof file")


def test_flamegraphs_of_the_kinds_asked_for():
    f = Fixture("calls")
    path = os.path.join(scratch(), "out")
    t = Trace(f, "--cpu-profile=997", "-i", "0.1", "-o", f"{path}.calls.folded", "-o", f"{path}.folded",
              "-o", f"folded-cpu:{path}")
    f.go()
    doc = t.stop().doc
    f.finish()
    calls = {tuple(p["frames"]): p["self_ns"] for p in doc["paths"] if p["self_ns"]}
    with open(path + ".calls.folded") as file:
        equal(read_folded(file.read()), calls, "the calls")
    for cpu in (path + ".folded", path):
        with open(cpu) as file:
            equal(read_folded(file.read()), stacks_of(doc), "the samples")


def test_flamegraphs_that_would_stay_empty_are_refused():
    f = Fixture("calls")
    folder = scratch()
    for kind, how, args in (
        ("live", "--memory stacks", ("--memory", "live")),
        ("cpu", "--cpu-profile", ("--off-cpu",)),
        ("off-cpu", "--off-cpu", ("--cpu-profile",)),
        ("calls", "traced functions", ("--no-functions",)),
    ):
        done = roletrace("--pid", f.pid, *args, "-o", os.path.join(folder, f"x.{kind}.svg"))
        equal((done.returncode, os.listdir(folder)), (2, []), done.stderr)
        check(f"is recorded with {how}" in done.stderr, done.stderr)
    f.finish()


def test_flamegraphs_of_all_kinds_can_be_asked_for():
    """Each kind, by the options that record it, is there from an empty start on."""
    f = Fixture("calls")
    for kind, args in (
        ("wakers", ("--wakers",)),
        ("live-calls", ("--memory", "stacks")),
        ("alloc-calls", ("--memory", "stacks")),
        ("mapped", ("--memory", "growth")),
        ("faults", ("--memory", "growth")),
    ):
        path = os.path.join(scratch(), f"x.{kind}.svg")
        done = roletrace("--pid", f.pid, "-d", "0.2", "-f", "traced_*", *args, "-o", path)
        equal((done.returncode, os.path.exists(path)), (0, True), done.stderr)
    f.finish()
