# SPDX-License-Identifier: BSD-2-Clause
"""One snapshot in all formats, read by other programs' readers: Python's csv and json, promtool."""

import csv
import io
import json
import math
import os

from checks import check, equal
from cli import SAVED, Directory
from exposition import Page, promtool_check

# X1, E13, and whatever else a name may hold
ODD = [
    'quote" comma, back\\slash',
    "two\nlines\r\n",
    "計算::größe::{{closure}}",
    "<a::B<C, fn(u8) -> D> as e::F>::g",
    "esc\x1b[31m\x7f",
    "\ufffd",
    "semi;colon 'single' {braces}=\"\"",
    "",
    "x" * 5000,
    "x" * 2500 + "y" + "x" * 2499,
    "計" * 1700,
]


def odd_names(doc):
    renamed = {f["name"]: name for f, name in zip(doc["functions"], ODD)}
    for f in doc["functions"]:
        f["name"] = f["symbol"] = renamed.get(f["name"], f["name"])
        f["calls"] += 1
        f["in_flight"] = 1
    for e in doc["edges"]:
        for end in ("caller", "callee"):
            e[end] = renamed.get(e[end], e[end])
    doc["target"]["comm"] = "計算計算計\ufffd"


def convert(change=lambda doc: None):
    """The snapshot, and the directory with out.* of each format."""
    d = Directory()
    doc = d.snapshot(change)
    outputs = ["out.json", "out.csv", "out.buckets.csv", "out.prom"]
    done = d.run("report", "in.json", *(word for o in outputs for word in ("-o", o)))
    equal((done.returncode, done.stdout), (0, b""), f"report -o: {done.stderr}")
    equal(done.stderr.decode().splitlines(), [f"roletrace: wrote {o}" for o in outputs], "messages")
    equal(d.names(), sorted(["in.json", *outputs]), "files")
    return doc, d


def shown(name):
    """Control characters cannot be shown in CSV or labels."""
    return "".join(c if c in "\t\n\r" or c >= " " and c != "\x7f" else "\ufffd" for c in name)


def check_csv(doc, text):
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    equal(len(rows), len(doc["functions"]), "rows")
    for row, f in zip(rows, doc["functions"]):
        equal(row["function"], shown(f["name"]), "function")
        equal(row["window_ns"], str(doc["window"]["duration_ns"]), "window_ns")
        equal(row["comm"], doc["target"]["comm"], "comm")
        for key, value in f.items():
            if key in row and not isinstance(value, (list, dict)) and key not in ("symbol",):
                value = int(value) if isinstance(value, bool) else value
                equal(row[key], "" if value is None else str(value), f"{key} of {f['name'][:50]}")
        if f["share"] is not None:
            check(math.isclose(float(row["share_ratio"]), f["share"], rel_tol=1e-12, abs_tol=1e-15), f"share: {row}")


def check_buckets(doc, text):
    rows = {}
    for row in csv.DictReader(io.StringIO(text, newline="")):
        rows.setdefault(row["function"], []).append(row)
    for f in doc["functions"]:
        mine = rows.get(shown(f["name"]), [])
        equal(sum(int(r["count"]) for r in mine), f["returned"] or 0, f"calls in buckets of {f['name'][:50]}")
        h = f["histogram"]
        wanted = [(2 ** ((h["offset"] + i + 1) / 16), n) for i, n in enumerate(h["counts"]) if n]
        got = [(float(r["le_ns"]), int(r["count"])) for r in mine if r["gt_ns"]]
        equal(len(got), len(wanted), "buckets")
        for (le, n), (le_wanted, n_wanted) in zip(got, wanted):
            check(n == n_wanted and math.isclose(le, le_wanted, rel_tol=1e-15), f"bucket {le}: {n}, {wanted}")


def check_prom(doc, text):
    page = Page(text)
    called = len([f for f in doc["functions"] if f["calls"]])
    listed = 0
    for subject, kind in (("poll", "async"), ("function", "fn")):
        calls = page.values(f"roletrace_{subject}_calls_total")
        counts = page.values(f"roletrace_{subject}_duration_seconds_count")
        sums = page.values(f"roletrace_{subject}_duration_seconds_sum")
        listed += len(calls)
        for f in doc["functions"]:
            name = shown(f["name"]).replace("\r", "\ufffd")
            if f["kind"] != kind or not f["calls"] or len(f["name"].encode()) > 240:
                continue  # long ones are cut
            if name in calls or called <= 100:
                equal(calls.get(name), str(f["calls"]), f"calls of {name}")
                equal(counts[name], str(f["returned"]), f"count of {name}")
                equal(int(sums[name].replace(".", "")), f["sum_ns"], f"sum of {name}")
    equal(listed, min(called, 100), "listed functions")
    equal(int(page.value("roletrace_functions_unlisted")), called - listed, "unlisted")


def check_json(doc, got):
    for part in doc:
        if part != "functions":
            equal(got[part], doc[part], part)
    equal(len(got["functions"]), len(doc["functions"]), "functions")
    for f, wanted in zip(got["functions"], doc["functions"]):
        for key in wanted:
            equal(f[key], wanted[key], f"{key} of {wanted['name'][:50]}")


def check_all(doc, d):
    check_json(doc, json.loads((d / "out.json").read_text()))
    check_csv(doc, (d / "out.csv").read_bytes().decode())
    check_buckets(doc, (d / "out.buckets.csv").read_bytes().decode())
    check_prom(doc, (d / "out.prom").read_bytes().decode())


def test_formats_agree():
    doc, d = convert()
    check_all(doc, d)
    equal((d / "out.json").read_bytes(), SAVED.read_bytes(), "a file of roletrace's comes back byte for byte")


def test_x1_e13_odd_names_in_all_formats():
    doc, d = convert(odd_names)
    check_all(doc, d)


def many(doc):
    rows = doc["functions"]
    doc["functions"] = [dict(rows[i % len(rows)], name=f"f{i}", calls=i + 1) for i in range(600)]
    doc["edges"] = []


def test_prom_is_bounded():
    doc, d = convert(many)
    check_all(doc, d)
    check(os.path.getsize(d / "out.prom") < 1 << 20, "a page of more than a megabyte")


def test_promtool_agrees():
    for change in (lambda doc: None, odd_names, many):
        _, d = convert(change)
        promtool_check(d / "out.prom")


def test_standard_output():
    d = Directory()
    for spec, text in (("-", SAVED.read_bytes()), ("json:-", SAVED.read_bytes()), ("csv:-", b"function,symbol")):
        done = d.run("report", SAVED, "-o", spec)
        equal((done.returncode, done.stderr), (0, b""), f"-o {spec}")
        check(done.stdout.startswith(text[:15]), f"-o {spec}: {done.stdout[:100]}")
    done = d.run("report", SAVED, "-o", "csv:-", "-o", "out.prom")
    equal(done.stderr.decode(), "roletrace: wrote out.prom\n", "messages")
    done = d.run("report", SAVED, "-f", "*::digest", "-o", "csv:-")
    equal(len(done.stdout.splitlines()), 2, "a filter chooses what is written")


def test_one_place_twice_is_refused():
    d = Directory()
    for a, b in (("x.csv", "x.csv"), ("x.csv", "./x.csv"), ("csv:x", "prom:x"), ("-", "csv:-"), ("csv:/dev/stdout", "-")):
        done = d.run("report", SAVED, "-o", a, "-o", b)
        equal((done.returncode, done.stdout), (2, b""), f"-o {a} -o {b}: {done.stderr}")
        check(b"write to the same place" in done.stderr, done.stderr)
    equal(d.names(), [], "files")


def test_unknown_formats_are_refused():
    d = Directory()
    for spec, code in (("x.txt", 2), ("xml:x", 2), ("csv:", 2), ("", 2), ("none/x.csv", 1)):
        done = d.run("report", SAVED, "-o", "good.csv", "-o", spec)
        equal((done.returncode, done.stdout), (code, b""), f"-o {spec}: {done.stderr}")
        equal(len(done.stderr.splitlines()), 1, f"{done.stderr}")
    equal(d.names(), [], "files")
