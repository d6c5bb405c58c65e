# SPDX-License-Identifier: BSD-2-Clause
"""The snapshot file: its rows by name, the comparison with a truth, and the contract that every one
of them must keep."""

import re

from checks import check, close, equal


class Snapshot:
    STATS = (
        "sum_ns",
        "total_ns",
        "self_ns",
        "min_ns",
        "max_ns",
        "mean_ns",
        "p50_ns",
        "p95_ns",
        "p99_ns",
    )

    def __init__(self, doc):
        self.doc = doc
        self.functions = [r for r in doc["functions"] if r["calls"] is not None]
        self.unprobed = doc["functions"][len(self.functions) :]  # known by samples alone
        self.lost = doc["lost"]
        self.check_contract()

    @staticmethod
    def plain(name):
        """Closures as the legacy mangling has them."""
        return re.sub(r"\{closure#\d+\}", "{{closure}}", name)

    def rows(self, part):
        return [r for r in self.functions if part in self.plain(r["name"])]

    def row(self, name):
        rows = [r for r in self.functions if self.plain(r["name"]) == name]
        names = ", ".join(sorted(r["name"] for r in self.functions)[:20])
        equal(len(rows), 1, f"rows called '{name}' (there are: {names})")
        return rows[0]

    def check_contract(self):
        d = self.doc
        equal(d["schema"], "roletrace.snapshot/1", "schema")
        for part in (
            "tool",
            "target",
            "window",
            "health",
            "lost",
            "overhead",
            "functions",
            "edges",
            "skipped",
        ):
            check(part in d, f"'{part}' is missing in the snapshot")
        w = d["window"]
        close(w["end_unix_ns"] - w["start_unix_ns"], w["duration_ns"], 0.02, "window.duration_ns")
        check(d["health"]["status"] in ("ok", "degraded"), f"health {d['health']}")
        check(all(isinstance(n, int) and n >= 0 for n in d["lost"].values()), f"lost {d['lost']}")
        for row in self.functions:
            self.check_row(row)
        for row in self.unprobed:
            self.check_unprobed(row)
        equal(len({(r["name"], r["symbol"]) for r in self.unprobed}), len(self.unprobed), "rows")
        calls = {}
        for e in d["edges"]:
            calls[e["callee"]] = calls.get(e["callee"], 0) + e["calls"]
        for name, n in calls.items():
            known = sum(r["calls"] for r in self.functions if r["name"] == name)
            check(n <= known, f"edges: {n} calls of '{name}', the function has {known}")

    def check_unprobed(self, r):
        known = {"name", "symbol", "aliases", "crate", "module", "origin", "file", "line", "cpu"}
        known.add("coverage")
        told = [k for k, v in r.items() if k not in known and v is not None]
        equal(told, [], f"{r['name']}: what only probes can tell")
        probed = self.functions[0] if self.functions else r
        missing = set(probed) - set(r) - {"file", "line", "alloc"}
        equal(missing, set(), f"{r['name']}: members that probed rows have")
        cpu, count = r["cpu"], self.doc["profiles"]["cpu"]["count"]
        equal(r["coverage"], "sampled", f"{r['name']}: coverage")
        check(0 < cpu["samples"] <= count, f"{r['name']}: {cpu} of {count} samples")
        check(cpu["self_samples"] <= cpu["samples"] >= cpu["inlined_samples"], f"{r['name']}: {cpu}")
        low, high = cpu["time_interval_ns"]
        check(low <= cpu["time_ns"] <= high, f"{r['name']}: {cpu}")

    def check_row(self, r):
        name = r["name"]
        check(
            r["kind"] in ("fn", "async") and r["coverage"] in ("exact", "sampled", "entry-only"),
            f"{name}: {r}",
        )
        if r["sampled"]:
            self.check_estimates(name, r, r["sampled"])
        if r["coverage"] == "entry-only":
            check(all(r[k] is None for k in self.STATS), f"{name}: not measured, so null: {r}")
            return
        ended = r["returned"] + r["unwound"] + r["in_flight"]
        untimed = r["calls"] - ended
        check(
            untimed == r.get("untimed", untimed),
            f"{name}: calls {r['calls']}, ended or in flight {ended}, untimed {r.get('untimed')}",
        )
        lost = sum(self.lost.values())
        check(
            0 <= untimed <= lost,
            f"{name}: {r['calls']} calls, {ended} accounted for, lost {self.lost}",
        )
        h = r["histogram"]
        counted = h["zero_count"] + sum(h["counts"])
        equal(
            counted + r.get("histogram_lost", 0),
            r["returned"],
            f"{name}: durations in the histogram",
        )
        if not r["returned"]:
            return
        check(
            r["sum_ns"] >= r["total_ns"] >= 0 and r["sum_ns"] >= r["self_ns"] >= 0,
            f"{name}: sum, total, self: {r}",
        )
        close(
            r["mean_ns"],
            r["sum_ns"] / r["returned"],
            0.01 + 1 / max(r["mean_ns"], 1),
            f"{name}: mean_ns",
        )
        check(
            r["max_ns"] <= self.doc["window"]["duration_ns"] * 1.05 + 1e6,
            f"{name}: a call longer than the window: {r['max_ns']}",
        )
        order = [r[k] for k in ("min_ns", "p50_ns", "p95_ns", "p99_ns", "max_ns")]
        check(order == sorted(order), f"{name}: min, p50, p95, p99, max: {order}")
        bounds = [
            2 ** ((h["offset"] + i) / 2 ** h["scale"]) for i, n in enumerate(h["counts"]) if n
        ]
        if bounds:
            width = 2 ** (1 / 2 ** h["scale"])
            check(
                bounds[-1] <= r["max_ns"] * 1.001,
                f"{name}: highest bucket above {bounds[-1]}, max_ns {r['max_ns']}",
            )
            check(
                h["zero_count"] or bounds[0] * width >= r["min_ns"] * 0.999,
                f"{name}: lowest bucket up to {bounds[0] * width}, min_ns {r['min_ns']}",
            )

    def check_estimates(self, name, r, how):
        figures = [("calls", "calls_estimated", "calls_interval")]
        if r["coverage"] != "entry-only":
            times = ("sum", "total", "self")
            figures += [(f"{t}_ns", f"{t}_ns_estimated", f"{t}_interval_ns") for t in times]
        for seen, estimated, interval in figures:
            low, high = how[interval]
            check(
                low <= how[estimated] <= (high or 1 << 64) and r[seen] <= how[estimated],
                f"{name}: {seen} {r[seen]}, estimated {how[estimated]} of {how[interval]}",
            )

    def exact(self, truth, keys=("calls", "returned", "unwound", "in_flight", "tail_exits")):
        """All figures that the truth tells are the rows' figures."""
        wrong = []
        for name, wanted in truth.items():
            if not wanted.get("calls") and not self.rows(name):
                continue  # a function without a call may be left out
            row = self.row(name)
            wanted = {"unwound" if k == "panicked" else k: v for k, v in wanted.items()}
            got = {k: row[k] for k in keys if k in wanted}
            if got != {k: wanted[k] for k in got}:
                wrong.append(f"{name}: { ({k: row[k] for k in keys}) }, truth {wanted}")
        check(not wrong, "\n    ".join(["differs from the truth", *wrong, f"lost {self.lost}"]))

    def nothing_lost(self, *but):
        some = {k: v for k, v in self.lost.items() if v and k not in but}
        equal(some, {}, "lost")
