# SPDX-License-Identifier: BSD-2-Clause
"""--memory growth: who made the process larger, against the fixture's own account."""

import os
import subprocess

import harness
from exposition import Page
from harness import Fixture, Trace, check, equal

PAGE = 4096


def grown(f, words, *args, **kwargs):
    """Traces while the fixture answers words: (snapshot, what it says before, and after)."""
    before = f.ask("answer")
    t = Trace(f, *args, **kwargs)
    for word in words:
        after = f.ask(word)
    snapshot = t.stop()
    m = snapshot.doc["memory"]
    equal((m["mode"], m["reliable"], m["growth_reason"]), ("growth", True, None), "memory")
    for was, total, row in (
        ("size", m["map_grown_bytes"] - m["map_shrunk_bytes"], None),
        ("data", m["data_growth_bytes"], None),
    ):
        # whatever happened, nothing of it is missing
        equal(total, after["_process"][was] - before["_process"][was], f"growth of {was}")
    for key, total in (
        ("mapped_bytes", "map_grown_bytes"),
        ("unmapped_bytes", "map_shrunk_bytes"),
        ("data_bytes", "data_growth_bytes"),
        ("page_faults", "page_faults"),
    ):
        equal(sum(g[key] for g in m["growth"]), m[total], f"{key} of all rows")
    return snapshot, before, after


def agree(m, after, functions):
    rows = {g["frames"][-1]: g for g in m["growth"] if "thread" not in g}
    for name in functions:
        got, truth = rows.get(name, {}), after[name]
        for key, name_there in (("mapped", "mapped_bytes"), ("unmapped", "unmapped_bytes"), ("data", "data_bytes")):
            equal(got.get(name_there, 0), truth[key], f"{name}: {name_there}")
        # and some of its own code and stack; a page that was touched while read-shared is twice
        faults = got.get("page_faults", 0)
        check(truth["touched"] <= faults <= truth["touched"] + 8, f"{name}: {faults} faults, touched {truth['touched']}")
    return rows


SINGLE = [
    "traced_brk",
    "traced_map",
    "traced_remap",
    "traced_unmap",
    "traced_over",
    "traced_fails",
    "traced_file",
    "traced_rights",
    "traced_touch",
]


def test_growth_by_function():
    """Each way of growing, in the function that did it; what failed is none."""
    f = Fixture("grows")
    snapshot, _, after = grown(f, ["grow"])
    rows = agree(snapshot.doc["memory"], after, SINGLE)
    check("traced_fails" not in rows or not rows["traced_fails"]["mapped_bytes"], "failed mmaps")
    snapshot.nothing_lost()
    f.finish()


def test_growth_of_threads_at_once():
    """The map's lock tells whose change it was: nothing goes to another thread."""
    f = Fixture("grows")
    snapshot, _, after = grown(f, ["race"])
    agree(snapshot.doc["memory"], after, ["traced_race"])
    f.finish()


def test_growth_without_functions():
    """By thread, where there is nothing else to tell by: stripped, or not asked for."""
    stripped = os.path.join(harness.scratch(), "grows")
    subprocess.check_call(["strip", "-o", stripped, os.path.join(harness.FIXTURES, "grows")])
    for exe, args in ((stripped, ()), (None, ("--no-functions",))):
        f = Fixture("grows", exe=exe)
        snapshot, _, after = grown(f, ["threads", "grow"], *args, functions=())
        rows = {}
        for g in snapshot.doc["memory"]["growth"]:
            equal(g["frames"], ["[outside traced functions]"], "frames")
            check(g["thread"] not in rows, f"{g['thread']} twice")
            rows[g["thread"]] = g
        for name in ("grower-a", "grower-b"):
            equal(rows[name]["mapped_bytes"], 70 * PAGE, f"mapped by {name}")
            equal(rows[name]["data_bytes"], 70 * PAGE, f"data of {name}")
            check(10 <= rows[name]["page_faults"] <= 18, f"{name}: {rows[name]}")
        main = rows[os.path.basename(f.exe)[:15]]
        for key, name_there in (("mapped", "mapped_bytes"), ("unmapped", "unmapped_bytes"), ("data", "data_bytes")):
            equal(main[name_there], sum(after[name][key] for name in SINGLE), name_there)
        f.finish()


def test_growth_on_older_kernels():
    """It takes no probe, no task storage: threads are told by name."""
    f = Fixture("grows")
    snapshot, _, after = grown(f, ["grow"], "--without", "uprobe_multi,task_storage")
    rows = snapshot.doc["memory"]["growth"]
    equal([g["thread"] for g in rows if g["mapped_bytes"]], ["grows"], "who grew")
    f.finish()


def test_growth_where_maps_are_not_told():
    """Before 6.13: faults as ever, and no zeros where nothing was seen."""
    f = Fixture("grows")
    t = Trace(f, "--without", "map_lock")
    f.ask("grow")
    m = t.stop().doc["memory"]
    check("6.13" in m["growth_reason"], f"reason: {m['growth_reason']}")
    for key in ("map_grown_bytes", "map_shrunk_bytes", "data_growth_bytes"):
        equal(m[key], None, key)
    row = next(g for g in m["growth"] if g["frames"] == ["traced_map"])
    equal([row[k] for k in ("mapped_bytes", "unmapped_bytes", "data_bytes")], [None] * 3, "of a row")
    check(row["page_faults"] >= 16, f"faults {row['page_faults']}")
    again = harness.roletrace("report", t.file, "-o", "json:-")
    with open(t.file) as file:
        equal(again.stdout, file.read(), "the file read and written again")
    check(any("6.13" in line for line in t.stdout), f"the report: {t.stdout}")
    done = harness.roletrace("check", "--without", "map_lock")
    check("--  memory maps" in done.stdout, done.stdout)
    f.finish()


def test_growth_in_report_and_prometheus():
    f = Fixture("grows")
    page = os.path.join(harness.scratch(), "out.prom")
    t = Trace(f, "-o", page)
    f.ask("grow")
    m = t.stop().doc["memory"]
    with open(page) as text:
        page = Page(text.read())
    for metric, key in (("map_grown", "map_grown_bytes"), ("map_shrunk", "map_shrunk_bytes")):
        equal(page.value(f"roletrace_memory_{metric}_bytes_total"), str(m[key]), metric)
    check(any(line.startswith("Grows in") for line in t.stdout), f"the report: {t.stdout}")
    check(any(line.startswith("traced_") and "KB" in line for line in t.stdout), "no row")
    again = harness.roletrace("report", t.file, "-o", "json:-")
    with open(t.file) as file:
        equal(again.stdout, file.read(), "the file read and written again")
    equal(harness.roletrace("report", t.file).stdout.splitlines(), t.stdout, "the file's report")
    f.finish()


def test_growth_of_another_process_is_not_ours():
    f, other = Fixture("grows"), Fixture("grows")
    before = f.ask("answer")
    t = Trace(f)
    other.ask("grow")
    other.ask("race")
    m = t.stop().doc["memory"]
    equal((m["map_grown_bytes"], m["map_shrunk_bytes"]), (0, 0), "mapped by an idle process")
    equal(f.ask("answer")["_process"], before["_process"], "it was idle")
    other.finish()
    f.finish()
