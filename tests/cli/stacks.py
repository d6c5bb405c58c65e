# SPDX-License-Identifier: BSD-2-Clause
"""Weighted stacks made up for a saved snapshot (docs/snapshot.md), and what they add up to."""

import random

CLOSURE = "::{{closure}}"
# name, module, kind, file, line, inlined
FRAMES = {
    "start": ("__clone3", "libc.so.6", "lib", None, None),
    "thread": ("std::sys::pal::unix::thread::Thread::new::thread_start", "demo_role", "std", None, None),
    "worker": ("tokio::runtime::scheduler::multi_thread::worker::Context::run", "demo_role", "dep", "src/runtime/worker.rs", 488),
    "poll": ("tokio::runtime::task::harness::poll_future::<demo_role::server::Task<alloc::sync::Arc<demo_role::State>>>", "demo_role", "dep", None, None),
    "park": ("tokio::runtime::park::Inner::park", "demo_role", "dep", None, None),
    "futex": ("std::sys::sync::condvar::futex::Condvar::wait", "demo_role", "std", None, None),
    "kernel": ("[kernel]", "[kernel]", "kernel", None, None),
    "conn": ("demo_role::server::handle_connection" + CLOSURE, "demo_role", "own", "src/server.rs", 61),
    "valid": ("demo_role::validator::validate" + CLOSURE * 2, "demo_role", "own", "src/validator.rs", 30),
    "share": ("demo_role::share::check_share", "demo_role", "own", "src/share.rs", 88),
    "digest": ("demo_role::sha256::digest", "demo_role", "own", "src/sha256.rs", 12),
    "job": ("demo_role::job::build_template", "demo_role", "own", "src/job.rs", 20),
    "push": ("<alloc::vec::Vec<demo_role::share::Share, alloc::alloc::Global> as core::iter::Extend<demo_role::share::Share>>::extend", "demo_role", "std", None, None),
    "array": ("demo_role::share::pack::<[u8; 32], fn(u32) -> core::option::Option<u8>>", "demo_role", "own", None, None),
    "hash": ("<[u8; 80] as demo_role::share::Header>::hash", "demo_role", "own", "src/share.rs", 140),
    "memcpy": ("__memcpy_avx_unaligned_erms", "libc.so.6", "lib", None, None),
    "evil": ('</script><script>alert("x")</script> \\ ;\n計算 &amp; <b>', None, "unknown", None, None),
}
TOKIO = ("start", "thread", "worker", "poll")
CPU = [
    (TOKIO + ("conn", "share", "hash", "digest"), 410),
    (TOKIO + ("conn", "share", "digest"), 120),
    (TOKIO + ("conn", "array"), 33),
    (TOKIO + ("conn", "push", "memcpy"), 61),
    (TOKIO + ("valid", "share", "hash", "digest"), 190),
    (TOKIO + ("valid",), 25),
    (TOKIO + ("job", "digest"), 77),
    (("start", "thread", "worker", "park", "futex", "kernel"), 18),
    (("start", "evil"), 9),
    (("share", "digest"), 7, "no_rows"),
]
OFF_CPU = [
    (("start", "thread", "worker", "park", "futex", "kernel"), 9_412_345_678, 1204),
    (TOKIO + ("conn", "kernel"), 221_000_000, 310),
    (TOKIO + ("valid", "futex", "kernel"), 48_120_000, 96),
]
PATHS = [  # frames, calls, self_ns; every prefix is a row of its own
    (("conn",), 2831, 31_000_000),
    (("conn", "share"), 1136, 2_100_000),
    (("conn", "share", "hash"), 1136, 2_600_000),
    (("conn", "share", "hash", "digest"), 2272, 10_855_382),
    (("job",), 57, 8_900_000),
    (("job", "digest"), 7296, 24_705_067),
]
NAME_OF = {"conn": FRAMES["conn"][0], "share": FRAMES["share"][0], "hash": "demo_role::share::hash_header",
           "digest": FRAMES["digest"][0], "job": FRAMES["job"][0]}


def frame(name, module, kind, file, line, **more):
    return {"name": name, "module": module, "kind": kind, **more,
            **({"file": file, "line": line} if file else {})}


def profiles(cpu=CPU, off_cpu=OFF_CPU):
    index = {key: i for i, key in enumerate(FRAMES)}
    made = {"frames": [frame(*f, **({"inlined": True} if key == "hash" else {})) for key, f in FRAMES.items()]}
    made["cpu"] = {
        "unit": "samples", "hz": 49, "count": sum(row[1] for row in cpu) + 3,
        "truncated": {row[2]: row[1] for row in cpu if len(row) > 2}, "lost": {"stacks_full": 3},
        "unlisted_functions": 2, "unlisted_self_samples": 1, "unnamed_samples": 0, "probe_samples": 0,
        "stacks": [{"frames": [index[k] for k in row[0]], "value": row[1],
                    **({"truncated": row[2]} if len(row) > 2 else {})} for row in cpu],
    }
    made["off_cpu"] = {
        "unit": "ns", "min_ns": 1000, "count": sum(row[2] for row in off_cpu), "older": 2, "truncated": {}, "lost": {},
        "stacks": [{"frames": [index[k] for k in keys], "value": ns, "count": n} for keys, ns, n in off_cpu],
    }
    return made


def add_stacks(doc, cpu=CPU):
    """All kinds of stacks."""
    doc["profiles"] = profiles(cpu)
    total = {path: sum(ns for p, _, ns in PATHS if p[: len(path)] == path) for path, _, _ in PATHS}
    doc["paths"] = [{"frames": [NAME_OF[k] for k in path], "calls": calls, "sum_ns": total[path], "self_ns": ns}
                    for path, calls, ns in PATHS]
    doc["memory"] = {"stacks": [
        {"frames": [NAME_OF["conn"], FRAMES["push"][0]], "live_bytes": 3 << 20, "live_count": 1500, "alloc_bytes": 90 << 20},
        {"frames": [NAME_OF["job"]], "live_bytes": 40960, "live_count": 10, "alloc_bytes": 41 << 20},
        {"frames": ["demo_role::main"], "live_bytes": 0, "live_count": 0, "alloc_bytes": 4096},
    ]}


def add_only_paths(doc):
    add_stacks(doc)
    del doc["profiles"], doc["memory"]


def add_many(doc, stacks=20000):
    """A tree of far more than 20,000 frames, 60 deep, of the shape that a big server has."""
    rng = random.Random(7)
    names = [f"demo_role::module_{i % 40}::Type{i}<alloc::vec::Vec<u{i % 64}>>::method_{i}" for i in range(4000)]
    frames = [frame(n, "demo_role", rng.choice(["own", "dep", "std"]), None, None) for n in names]
    rows, stack = [], [0]
    for _ in range(stacks):
        stack = stack[: rng.randint(1, len(stack))]
        while len(stack) < 60 and rng.random() < 0.85:
            stack.append(rng.randrange(len(frames)))
        rows.append({"frames": list(stack), "value": rng.randint(1, 50)})
    doc["profiles"] = {"frames": frames, "cpu": {"unit": "samples", "hz": 997, "count": sum(r["value"] for r in rows),
                                                "truncated": {}, "lost": {}, "stacks": rows}}


def names_of(keys, truncated=None):
    return ([f"[truncated: {truncated}]"] if truncated else []) + [FRAMES[k][0] for k in keys]


def totals(cpu=CPU):
    """{name: (self, total)} in samples, each stack once."""
    sums = {}
    for keys, value, *why in cpu:
        names = names_of(keys, *why)
        for name in set(names):
            own, total = sums.get(name, (0, 0))
            sums[name] = (own + (value if name == names[-1] else 0), total + value)
    return sums
