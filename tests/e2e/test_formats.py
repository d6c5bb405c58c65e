# SPDX-License-Identifier: BSD-2-Clause
"""All formats of one trace, against what the target itself counted; X1, X2."""

import csv
import io
import json
import os
import time

import harness
from exposition import Page, promtool_check
from harness import Fixture, Snapshot, Trace, check, equal, scratch, until


def returned(row):
    return row.get("returned", row["calls"])


def check_page(page, truth):
    calls = page.values("roletrace_function_calls_total")
    counts = page.values("roletrace_function_duration_seconds_count")
    for name, row in truth.items():
        equal(calls.get(name, "0"), str(row["calls"]), f"calls of {name} in the .prom")
        equal(counts.get(name, "0"), str(returned(row)), f"count of {name} in the .prom")


def test_all_formats_at_once():
    f = Fixture("calls")
    path = os.path.join(scratch(), "out")
    specs = [f"{path}.csv", f"{path}.buckets.csv", f"{path}.prom", "-"]
    t = Trace(f, *(word for spec in specs for word in ("-o", spec)))
    truth = f.go()
    snapshot = t.stop()
    snapshot.exact(truth)
    equal(Snapshot(json.loads("\n".join(t.stdout))).doc, snapshot.doc, "-o - and -o json:FILE")
    check(any("Calls" in line for line in t.stderr), "the report makes way for the data")

    with open(f"{path}.csv", newline="") as file:
        rows = {row["function"]: row for row in csv.DictReader(file)}
    for name, wanted in truth.items():
        for key in ("calls", "returned", "unwound", "in_flight"):
            if key in wanted:
                equal(rows[name][key], str(wanted[key]), f"{key} of {name} in the .csv")
    buckets = {name: 0 for name in truth}
    with open(f"{path}.buckets.csv", newline="") as file:
        for row in csv.DictReader(file):
            buckets[row["function"]] += int(row["count"])
    equal(buckets, {name: returned(row) for name, row in truth.items()}, "calls in buckets")

    with open(f"{path}.prom") as file:
        page = Page(file.read())
    check_page(page, truth)
    equal(page.value("roletrace_tracing"), "0", "roletrace_tracing in the last file")
    equal(page.value("roletrace_target_info", pid=str(f.pid)), "1", "roletrace_target_info")
    f.finish()
    promtool_check(f"{path}.prom")


def test_saved_and_live_report_are_the_same():
    f = Fixture("calls")
    t = Trace(f, "--sort", "calls", "--limit", 2)
    f.go()
    t.stop()
    saved = harness.roletrace("report", t.file, "--sort", "calls", "--limit", 2)
    equal(saved.returncode, 0, f"report: {saved.stderr}")
    equal(saved.stdout.splitlines(), t.stdout, "the report of the file")
    f.finish()


def test_x2_pages_written_while_calls_go_on():
    """The figures are read one after the other; a page must hold together all the same."""
    f = Fixture("traffic", 4, 20)
    path = os.path.join(scratch(), "out.prom")
    t = Trace(f, "-i", "0.05", "-o", path)
    f.say("go")
    until(lambda: os.path.exists(path), 10, "a first page")
    pages = before = 0
    end = time.monotonic() + 4
    while time.monotonic() < end:
        with open(path) as file:
            page = Page(file.read())
        equal(page.value("roletrace_tracing"), "1", "roletrace_tracing")
        calls = int(page.values("roletrace_function_calls_total").get("traced_step", 0))
        check(calls >= before, f"calls went from {before} to {calls}")
        pages += calls > before
        before = calls
        time.sleep(0.02)
    check(pages > 10, f"{pages} different pages in 4 s")
    truth = f.ask("quiesce")["truth"]
    t.stop().exact({name: {**row, "in_flight": 0} for name, row in truth.items()})
    with open(path) as file:
        check_page(Page(file.read()), truth)
    f.finish()


def test_a_pipe_gets_one_document_and_files_go_on():
    f = Fixture("calls")
    directory = scratch()
    pipe, file = os.path.join(directory, "pipe"), os.path.join(directory, "out.csv")
    os.mkfifo(pipe)
    reader = harness.start(["cat", pipe], stdout=-1)
    t = Trace(f, "-i", "0.1", "-o", f"csv:{pipe}", "-o", file)
    truth = f.go()
    until(lambda: os.path.exists(file) and "traced" in open(file).read(), 10, "a file meanwhile")
    t.stop()
    rows = list(csv.DictReader(io.StringIO(reader.communicate(timeout=10)[0].decode())))
    equal(len(rows), len({row["function"] for row in rows}), "rows: one document")
    for row in rows:
        equal(row["calls"], str(truth[row["function"]]["calls"]), f"calls of {row['function']}")
    with open(file) as again:
        equal(len(list(csv.DictReader(again))), len(rows), "rows of the file")
    f.finish()


def test_usage_errors_attach_nothing():
    f = Fixture("calls")
    d = scratch()
    for args in (
        ("-o", "a.csv", "-o", "./a.csv"),
        ("-o", "-", "-o", "csv:-"),
        ("-o", "a.xml"),
        ("--sort", "size"),
        ("--limit", "0"),
        ("--width", "80"),
    ):
        done = harness.roletrace("--pid", f.pid, "-f", "traced_*", "-d", "1", *args, cwd=d)
        equal((done.returncode, done.stdout), (2, ""), f"{args}: {done.stderr}")
        check("attached" not in done.stderr, done.stderr)
    equal(os.listdir(d), [], "files")
    f.finish()
