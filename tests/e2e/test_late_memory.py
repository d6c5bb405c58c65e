# SPDX-License-Identifier: BSD-2-Clause
"""L12 of memory: allocators that come with a library the process opens while it is traced."""

import os

import harness
from harness import FIXTURES, Fixture, Trace, check, equal, until

JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
MIMALLOC = "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2"


def said(t, words):
    until(lambda: any(words in line for line in t.stderr), 10, f"nobody said '{words}': {t.said()}")


def rows_of(m):
    rows = {(a["source"], a["object"]): a for a in m["allocators"]}
    equal(len(rows), len(m["allocators"]), "an allocator is there once")
    return rows


def compare(row, before, after, keys=("live_bytes", "live_count")):
    for key in keys:
        equal(row[key], after[key] - before[key], f"{row['source']}: {key}")


def opened_later(library, source, keys):
    if not os.path.exists(library):
        raise harness.Skip(f"no {library}")
    for mode in ("live", "stacks"):
        # jemalloc keeps its threads' state where room is scarce once a program runs
        room = "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384"
        f = Fixture("late_allocs", library, command=("env", room))
        first = f.ask("own")
        t = Trace(f, "--memory", mode)
        f.ask("own")
        # what the allocator does before it is attached to is not counted: opened, then used
        f.ask("open")
        said(t, "is traced from here on")
        f.ask("late")
        last = f.ask("own")
        snapshot = t.stop()
        m = snapshot.doc["memory"]
        equal((m["reliable"], m["source"]), (True, "several"), f"memory in {mode}")
        rows = rows_of(m)
        late = rows[source, os.path.basename(os.path.realpath(library))]
        own = rows["glibc", "libc.so.6"]
        compare(late, first["late"], last["late"], keys)
        equal((late["traced"], own["since_unix_ns"]), (True, None), "traced, own since")
        check(m["since_unix_ns"] < late["since_unix_ns"], "since when")
        # what the loader and the allocator itself have taken is libc's as well
        check(own["live_count"] >= last["own"]["live_count"] - first["own"]["live_count"], f"{own}")
        equal(m["live_count"], own["live_count"] + late["live_count"], "both")
        if mode == "stacks":
            stack = next(s for s in m["stacks"] if s["frames"] == ["traced_work"])
            equal(
                stack["live_count"],
                sum(last[k]["live_count"] - first[k]["live_count"] for k in last),
                "blocks of both",
            )
        snapshot.nothing_lost()
        f.finish()


def test_l12_jemalloc_opened_later():
    opened_later(JEMALLOC, "jemalloc", ("live_bytes", "live_count", "alloc_count"))


def test_l12_mimalloc_opened_later():
    opened_later(MIMALLOC, "mimalloc", ("live_bytes", "live_count", "alloc_count"))


def rust(library, *args):
    f = Fixture("late-allocs-rust", os.path.abspath(os.path.join(FIXTURES, library)))
    f.ask("own")
    t = Trace(f, "--memory", "live", *args, functions=("late_allocs::*",))
    return f, t


def test_l12_rust_library_opened_later():
    """Its shims are not the executable's."""
    f, t = rust("libgreedy.so")
    first = f.ask("own")
    f.ask("open")
    said(t, "is traced from here on")
    f.ask("late")
    last = f.ask("late")
    m = t.stop().doc["memory"]
    rows = rows_of(m)
    equal((m["source"], m["reliable"]), ("rust", True), "memory")
    compare(rows["rust", "libgreedy.so"], first["late"], last["late"])
    # 66 of the first round, 66 of the second
    equal(rows["rust", "late-allocs-rust"]["live_count"], 66, "the executable's own")
    f.finish()


def test_l12_rust_library_is_not_counted_twice():
    """With malloc's layer its blocks are libc's."""
    f, t = rust("libgreedy.so", "--allocator", "malloc")
    f.ask("open")
    last = f.ask("late")
    last = f.ask("late")
    snapshot = t.stop()
    m = snapshot.doc["memory"]
    equal([a["source"] for a in m["allocators"] if a["traced"]], ["glibc"], "traced")
    check(last["late"]["live_count"] <= m["live_count"] <= last["late"]["live_count"] + 40, f"live {m['live_count']}")
    equal(snapshot.doc["health"]["reasons"], [], "reasons")
    f.finish()


def test_l12_half_an_allocator_is_said():
    """Its frees are inlined: no leak is made of it, and the file says what is missing."""
    f, t = rust("libgreedy-lto.so")
    f.ask("open")
    said(t, "is not traced")
    f.ask("late")
    snapshot = t.stop()
    m = snapshot.doc["memory"]
    equal((m["reliable"], m["live_count"]), (False, 0), "memory")
    for text in (m["reason"], " ".join(snapshot.doc["health"]["reasons"])):
        check("libgreedy-lto.so" in text and "mapped later" in text, f"says: {text}")
    f.finish()
