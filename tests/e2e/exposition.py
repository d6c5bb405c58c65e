# SPDX-License-Identifier: BSD-2-Clause
"""Prometheus' text format: a strict reader, and what every page of roletrace's must keep."""

import os
import re
import shutil
import subprocess

from checks import Skip, check, equal

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*)\} (\S+)')
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"')
UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Page:
    def __init__(self, text):
        self.samples = {}  # (metric, labels) -> value as written
        self.types = {}
        family = None
        for line in text.removesuffix("\n").split("\n"):
            if line.startswith("# "):
                _, kind, name, rest = line.split(" ", 3)
                if kind == "HELP":
                    check(name not in self.types, f"two families {name}")
                    family = name
                self.types[name] = rest if kind == "TYPE" else None
                continue
            match = SAMPLE.fullmatch(line)
            check(match, f"no sample: {line[:200]}")
            metric, labels, value = match.groups()
            base = re.sub("_(bucket|sum|count)$", "", metric) if self.types.get(family) == "histogram" else metric
            equal(base, family, f"the family of {metric}")
            key = (metric, tuple((k, re.sub(r"\\.", lambda m: UNESCAPED[m[0]], v)) for k, v in LABEL.findall(labels)))
            check(key not in self.samples, f"a series is there twice: {line[:200]}")
            self.samples[key] = value
            float(value)
        self.check_histograms()

    def check_histograms(self):
        """X2"""
        series = {}  # (family, labels but le) -> [(le, count)]
        for (metric, labels), value in self.samples.items():
            if metric.endswith("_bucket"):
                rest = tuple(pair for pair in labels if pair[0] != "le")
                bucket = (float(dict(labels)["le"]), int(value))
                series.setdefault((metric.removesuffix("_bucket"), rest), []).append(bucket)
        for (family, labels), buckets in series.items():
            bounds, counts = zip(*buckets)
            equal(list(bounds), sorted(bounds), f"bounds of {labels}")
            equal(list(counts), sorted(counts), f"cumulative counts of {labels}")
            count = int(self.samples[(family + "_count", labels)])
            equal(buckets[-1], (float("inf"), count), f"last bucket of {labels}")
            check((family + "_sum", labels) in self.samples, f"no sum of {labels}")
        check(len({tuple(le for le, _ in b) for b in series.values()}) < 2, "bounds differ")

    def values(self, metric, **labels):
        """{function: value} of a metric, as written."""
        return {
            dict(l).get("function"): v
            for (m, l), v in self.samples.items()
            if m == metric and labels.items() <= dict(l).items()
        }

    def value(self, metric, **labels):
        found = list(self.values(metric, **labels).values())
        equal(len(found), 1, f"samples of {metric} {labels}")
        return found[0]


def promtool_check(path):
    """The real thing says yes too."""
    promtool = os.environ.get("PROMTOOL") or "promtool"
    if not shutil.which(promtool):
        check(not os.environ.get("CI"), "promtool is missing")
        raise Skip("promtool is missing (make promtool)")
    with open(path) as page:
        done = subprocess.run([promtool, "check", "metrics"], stdin=page, capture_output=True, text=True)
    equal((done.returncode, done.stdout + done.stderr), (0, ""), "promtool check metrics")
