# SPDX-License-Identifier: BSD-2-Clause
"""P12, P13, E*: what stands in executables, and under which names."""

from harness import Fixture, Trace, check, equal, roletrace, trace


def test_p12_data_in_text_is_left_alone():
    f = Fixture("odd_symbols")
    t = Trace(f, functions=["*"])
    answer = f.ask("go")
    snapshot = t.stop()
    equal(answer["changed"], 0, "times the data in .text was changed")
    snapshot.exact(answer["truth"])
    for name in ("traced_table", "traced_object"):
        equal(snapshot.rows(name), [], f"rows of {name}")
    named = snapshot.rows("traced_unsized") + [
        s for s in snapshot.doc["skipped"] if s["name"] == "traced_unsized"
    ]
    equal(len(named), 1, "the function without a size: a row or refused by name")
    if "calls" in named[0]:
        equal(named[0]["calls"], 10, "calls of the function without a size")
    f.finish()


def test_p13_one_bad_function_does_not_sink_the_batch():
    f = Fixture("batch")
    t = Trace(f)
    answer = f.ask("go")
    snapshot = t.stop()
    equal(answer["locked"], 5, "the program's own result")
    refused = {s["name"]: s["reason"] for s in snapshot.doc["skipped"]}
    check(refused.get("traced_trap"), f"traced_trap is to be refused with a reason: {refused}")
    plain = {n: row for n, row in answer["truth"].items() if n != "traced_lock"}
    equal(len(plain), 48, "plain functions")
    snapshot.exact(plain)
    if "traced_lock" not in refused:
        snapshot.exact({"traced_lock": {"calls": 5}})
    f.finish()


def linked(how):
    f = Fixture(f"calls{how}")
    snapshot, truth = trace(f)
    snapshot.exact(truth)
    snapshot.nothing_lost()
    f.finish()
    equal(
        {n: r["calls"] for n, r in truth.items()},
        {"traced_three": 53, "traced_fifty": 50, "traced_many": 700},
        "calls, however it is linked",
    )


def test_e1_pie():
    linked("")


def test_e1_no_pie():
    linked("-no-pie")


def test_e1_static_pie():
    linked("-static-pie")


def test_e1_static():
    linked("-static")


def test_e1_first_segment_not_at_zero():
    linked("-high")


def test_e8_same_name_in_two_files():
    f = Fixture("twins")
    snapshot, _ = trace(f)
    rows = snapshot.rows("traced_helper")
    calls = sorted(r["calls"] for r in rows)
    check(calls == [3, 5] or (calls == [8] and rows[0]["sites"] == 2), f"rows of the twins: {rows}")
    f.finish()


def test_e13_odd_names():
    f = Fixture("odd_names")
    snapshot, truth = trace(f, functions=["traced*"])
    snapshot.exact(truth)
    equal(len(truth), len(snapshot.functions), "rows")
    f.finish()


def long_names(scheme):
    f = Fixture(f"names-{scheme}")
    t = Trace(f, functions=["*traced_*"])
    answer = f.ask("go")
    snapshot = t.stop()
    rows = snapshot.rows("traced_method")
    equal(
        sorted(r["calls"] for r in rows),
        answer["long"],
        f"calls of {[r['name'][-60:] for r in rows]}",
    )
    for r in rows:
        name = r["name"]
        whole = (
            name.count("(") == name.count(")")
            and name.count("<") == name.count(">")
            and name.endswith("::traced_method")
        )
        check(len(name) > 4500 and whole, f"a long name, whole: {len(name)} bytes, {name[-80:]}")
    equal(len({r["name"] for r in rows}), 2, "distinct names")
    equal(
        sum(r["calls"] for r in snapshot.rows("traced_generic")),
        answer["generic"],
        "calls of both instances",
    )
    closures = [r["calls"] for r in snapshot.rows("traced_with_closure::{{closure}}")]
    equal(closures, [answer["closure"]], "calls of the closure")
    equal(snapshot.row("names::traced_with_closure")["calls"], 5, "calls around the closure")
    umlauts = snapshot.rows("traced_öffnen") + snapshot.rows("traced_$uf6$ffnen")
    equal([r["calls"] for r in umlauts], [5], "calls of a name beyond ASCII")
    if scheme == "v0":
        equal(umlauts[0]["name"], "names::tür::traced_öffnen", "a punycoded name")
    for r in snapshot.functions:
        check(
            "17h" not in r["name"] and not r["name"].startswith("_"),
            f"not demangled: {r['name'][:80]}",
        )
    f.finish()


def test_e13_e14_rust_v0():
    long_names("v0")


def test_e13_e14_rust_legacy():
    long_names("legacy")


def test_e14_cplusplus_and_clones():
    f = Fixture("clones")
    t = Trace(f, functions=["*traced_*"])
    answer = f.ask("go")
    snapshot = t.stop()
    equal(answer["hot"], 10, "the program's own result")
    for part in (
        "(anonymous namespace)::traced_anonymous",
        "traced_space::box::traced_method",
        "traced_space::box::operator()",
        "traced_space::traced_template<int, 4>",
        "traced_split",
        "traced_special",
        "traced_llvm",
        "traced_hot",
    ):
        rows = snapshot.rows(part)
        equal(
            [r["calls"] for r in rows],
            [10],
            f"calls of {part} in {[r['name'] for r in snapshot.functions]}",
        )
    equal(
        [r["name"] for r in snapshot.functions if ".cold" in r["name"] + r["symbol"]],
        [],
        "cold parts as functions",
    )
    for part in ("traced_split.part.0", "traced_special.constprop.0"):
        equal(
            len([r for r in snapshot.functions if part in r["symbol"]]),
            1,
            f"clone {part} in {[r['symbol'] for r in snapshot.functions]}",
        )
    f.finish()


def test_list_touches_nothing():
    f = Fixture("batch")
    done = roletrace("list", "--pid", f.pid, "-f", "traced_*")
    equal(done.returncode, 0, f"exit code of list: {done.stderr}")
    check("traced_00" in done.stdout and "traced_trap" in done.stdout, f"list: {done.stdout[:500]}")
    equal(f.breakpoints(), [], "breakpoints")
    file = roletrace("list", "--exe", f.exe, "-f", "traced_*")
    equal((file.returncode, "traced_47" in file.stdout), (0, True), f"list --exe: {file.stderr}")
    f.go()
    f.finish()
