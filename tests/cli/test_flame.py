# SPDX-License-Identifier: BSD-2-Clause
"""roletrace flame: weighted stacks in the formats of other programs, read by these programs or by readers that
do as they do, and compared with the stacks that went in."""

import gzip
import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as xml

import schema
from checks import Skip, check, equal
from cli import ROOT, SAVED, Directory
from stacks import CPU, FRAMES, NAME_OF, OFF_CPU, PATHS, add_many, add_only_paths, add_stacks, names_of, profiles, totals


def flame(change, *args, code=0):
    d = Directory()
    d.snapshot(change)
    done = d.run("flame", "in.json", *args)
    equal((done.returncode, done.stdout), (code, b""), f"flame {args}: {done.stderr}")
    return d


def unescape(text):
    return re.sub(r"\\(x[0-9a-f]{2}|\\)", lambda m: "\\" if m[1] == "\\" else chr(int(m[1][1:], 16)), text)


def read_folded(text, values=1):
    """As flamegraph.pl does: what follows the last spaces are numbers, the rest are frames between ';'."""
    stacks = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(.*?)" + r" (\d+)" * values, line)
        check(match, f"no folded line: {line!r}")
        stack = tuple(unescape(f) for f in match[1].split(";"))
        check(stack not in stacks, f"a stack twice: {stack}")
        stacks[stack] = tuple(int(match[2 + i]) for i in range(values))
    return stacks


def cpu_stacks(cpu=CPU):
    return {tuple(names_of(keys, *why)): (value,) for keys, value, *why in cpu}


def path_stacks():
    return {tuple(NAME_OF[k] for k in path): (ns,) for path, _, ns in PATHS}


def test_folded_holds_every_stack():
    d = flame(add_stacks, "-o", "out.folded")
    equal(read_folded((d / "out.folded").read_text()), cpu_stacks(), "stacks")
    d = flame(add_stacks, "-o", "out.folded", "--kind", "off-cpu")
    equal(read_folded((d / "out.folded").read_text()), {tuple(names_of(keys)): (ns,) for keys, ns, _ in OFF_CPU}, "waits")
    d = flame(add_stacks, "-o", "out.folded", "--kind", "calls")
    equal(read_folded((d / "out.folded").read_text()), path_stacks(), "calls")
    for kind, key in (("live", "live_bytes"), ("alloc", "alloc_bytes")):
        d = flame(add_stacks, "-o", "out.folded", "--kind", kind)
        doc = json.loads((d / "in.json").read_text())
        wanted = {tuple(s["frames"]): (s[key],) for s in doc["memory"]["stacks"] if s[key]}
        equal(read_folded((d / "out.folded").read_text()), wanted, kind)


def test_e13_names_that_other_formats_use_stay_apart():
    odd = ["a;b", "a", "b", "a\\x3bb", "a\\", "a\nb", "a b 7", "計算;", "x" * 5000, "x" * 4999 + ";"]
    def change(doc):
        add_stacks(doc)
        doc["profiles"]["frames"] = [{"name": n, "module": None, "kind": "own"} for n in odd]
        doc["profiles"]["cpu"].update(truncated={}, stacks=[{"frames": [i, (i + 1) % len(odd)], "value": i + 1} for i in range(len(odd))])
    d = flame(change, "-o", "out.folded", "-o", "out.speedscope.json", "-o", "out.svg")
    wanted = {(n, odd[(i + 1) % len(odd)]): (i + 1,) for i, n in enumerate(odd)}
    equal(read_folded((d / "out.folded").read_text()), wanted, "stacks")
    equal(speedscope_stacks(json.loads((d / "out.speedscope.json").read_text()), 0), wanted, "speedscope")
    xml.parse(d / "out.svg")


def test_b3_stacks_that_are_not_whole_are_never_roots():
    def change(doc):
        add_stacks(doc)
        doc["profiles"]["cpu"]["stacks"] += [
            {"frames": [], "value": 4, "truncated": "no_rows"}, {"frames": [], "value": 2}, {"frames": [9], "value": 3, "truncated": "too_deep"}]
    d = flame(change, "-o", "out.folded")
    got = read_folded((d / "out.folded").read_text())
    equal({k: v for k, v in got.items() if k not in cpu_stacks()},
          {("[truncated: no_rows]",): (4,), ("[no frames]",): (2,), ("[truncated: too_deep]", FRAMES["share"][0]): (3,)}, "odd stacks")
    equal(sum(v for v, in got.values()), sum(r[1] for r in CPU) + 9, "all samples")


def test_each_output_may_name_its_kind():
    """By its suffix, or as a format; with report too."""
    for command in ("flame", "report"):
        d = Directory()
        d.snapshot(add_stacks)
        done = d.run(command, "in.json", "-o", "x.calls.folded", "-o", "folded-off-cpu:waits", "-o", "x.folded", "-o", "x.cpu.folded",
                     "-o", "x.off-cpu.html")
        equal(done.returncode, 0, done.stderr)
        equal(read_folded((d / "x.calls.folded").read_text()), path_stacks(), "calls")
        equal(sum(v for v, in read_folded((d / "waits").read_text()).values()), sum(r[1] for r in OFF_CPU), "off-cpu")
        equal((d / "x.folded").read_bytes(), (d / "x.cpu.folded").read_bytes(), "cpu is the first")
        check('"first":"off-cpu"' in (d / "x.off-cpu.html").read_text().replace(": ", ":"), "the page shows it first")


def test_kind_is_cpu_if_profiled_else_calls():
    d = flame(add_only_paths, "-o", "out.folded")
    equal(read_folded((d / "out.folded").read_text()), path_stacks(), "calls")
    for command in ("report", "flame"):  # the same exporters behind -o of report and of tracing
        d = Directory()
        d.snapshot(add_stacks)
        equal(d.run(command, "in.json", "-o", "out.folded").returncode, 0, command)
        equal(read_folded((d / "out.folded").read_text()), cpu_stacks(), command)


def older(doc):
    """Half as long; one stack of it is gone, one was three times as dear."""
    add_stacks(doc, [(("start", "push"), 50), *((k, v * 3 if "array" in k else v, *w) for k, v, *w in CPU[1:])])
    doc["window"]["duration_ns"] //= 2


def test_differences():
    d = Directory()
    doc = d.snapshot(add_stacks)
    old = d.snapshot(older, "old.json")
    done = d.run("flame", "in.json", "--diff", "old.json", "-o", "out.folded", "-o", "out.svg", "-o", "out.html")
    equal(done.returncode, 0, f"{done.stderr}")
    scale = doc["window"]["duration_ns"] / old["window"]["duration_ns"]
    wanted = {stack: (0, value) for stack, (value,) in cpu_stacks().items()}
    for row in old["profiles"]["cpu"]["stacks"]:
        names = [old["profiles"]["frames"][i]["name"] for i in row["frames"]]
        stack = tuple([f"[truncated: {row.get('truncated')}]"] * ("truncated" in row) + names)
        wanted[stack] = (round(row["value"] * scale), wanted.get(stack, (0, 0))[1])
    equal(read_folded((d / "out.folded").read_text(), 2), wanted, "old and new")
    title = svg_title(d / "out.svg", "demo_role::share::pack")
    check("33 samples (3.47 %), was 198 samples, -165 samples" in title, title)
    for form in ("out.pb.gz", "out.speedscope.json"):
        done = d.run("flame", "in.json", "--diff", "old.json", "-o", form)
        equal((done.returncode, b"cannot hold a difference" in done.stderr), (2, True), f"{form}: {done.stderr}")


def svg_title(path, name):
    titles = [t.text for t in xml.parse(path).iter("{http://www.w3.org/2000/svg}title")]
    return next(t for t in titles if t.startswith(name))


def test_svg_is_a_picture_of_the_figures():
    d = flame(add_stacks, "-o", "out.svg")
    ns = "{http://www.w3.org/2000/svg}"
    boxes, everything = {}, None
    for g in xml.parse(d / "out.svg").getroot().iter(ns + "g"):
        title, rect = g.find(ns + "title").text, g.find(ns + "rect")
        name, figures = title.rsplit("\n", 1)
        samples = int(re.match(r"(\d+) samples", figures)[1])
        x, y, width = (float(rect.get(k)) for k in ("x", "y", "width"))
        if name == "all":
            everything = (x, width, samples)
        else:
            boxes.setdefault(name, []).append((x, y, width, samples))
    all_samples = sum(value for _, value, *_ in CPU)
    equal(everything[2], all_samples, "all")
    sums = totals()
    for name, (_, total) in sums.items():
        shown = name.replace("\n", "\ufffd")
        equal(sum(b[3] for b in boxes[shown]), total, f"samples of {name}")
        for x, _, width, samples in boxes[shown]:
            check(abs(width - everything[1] * samples / all_samples) < 0.02, f"{name} is {width} wide for {samples}")
            check(x >= everything[0] - 0.01 and x + width <= everything[0] + everything[1] + 0.01, f"{name} is outside")
    rows = {}
    for of in boxes.values():
        for x, y, width, _ in of:
            rows.setdefault(y, []).append((x, x + width))
    for row in rows.values():
        for (_, end), (begin, _) in zip(sorted(row), sorted(row)[1:]):
            check(begin >= end - 0.011, f"boxes overlap: {sorted(row)}")
    check(not re.search(r"<script|href|http(?!://www.w3.org/2000/svg)", (d / "out.svg").read_text()), "something active or from elsewhere")
    d = flame(add_stacks, "-o", "x.svg", "--kind", "calls")
    title = svg_title(d / "x.svg", "demo_role::share::hash_header")
    check("13.5 ms (16.79 %), 1136 calls" in title, f"calls of this chain alone: {title}")


# ---- speedscope ----


def speedscope_stacks(doc, profile):
    p, names = doc["profiles"][profile], [f["name"] for f in doc["shared"]["frames"]]
    stacks = {}
    for sample, weight in zip(p["samples"], p["weights"]):
        stack = tuple(names[i] for i in sample)
        stacks[stack] = (stacks.get(stack, (0,))[0] + weight,)
    return stacks


def test_speedscope():
    d = flame(add_stacks, "-o", "out.speedscope.json")
    doc = json.loads((d / "out.speedscope.json").read_text())
    schema.speedscope(doc)
    equal([p["unit"] for p in doc["profiles"]], ["none", "nanoseconds", "nanoseconds", "bytes", "bytes"], "units")
    equal(speedscope_stacks(doc, 0), cpu_stacks(), "CPU")
    equal(speedscope_stacks(doc, 1), path_stacks(), "calls")
    for p in doc["profiles"]:
        equal((len(p["samples"]), p["endValue"]), (len(p["weights"]), sum(p["weights"])), p["name"])
    d = flame(add_stacks, "-o", "x.speedscope.json", "--kind", "calls")
    only = json.loads((d / "x.speedscope.json").read_text())["profiles"]
    equal([p["name"] for p in only], ["demo_role (pid 4275), time in traced calls"], "one kind")
    flame(add_many, "-o", "big.speedscope.json")


# ---- pprof ----


def go():
    """go tool pprof; not what a Go toolchain would fetch from elsewhere."""
    program = shutil.which("go") or "/usr/local/go/bin/go"
    if not os.access(program, os.X_OK):
        raise Skip("go is missing: pprof files were not opened by pprof itself")
    env = {**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GOPROXY": "off", "PPROF_NO_BROWSER": "1"}
    env.setdefault("HOME", "/tmp")

    def run(*args):
        done = subprocess.run([program, "tool", "pprof", *map(str, args)], env=env, capture_output=True, text=True, timeout=300)
        equal(done.returncode, 0, f"pprof {args}: {done.stderr}")
        return done.stdout

    return run


def top(text):
    """{name: (flat, cum)} of pprof -top -unit=count, or in the unit it says."""
    rows = {}
    for line in text.splitlines():
        match = re.match(r" *([\d.]+)\S* +[\d.]+% +[\d.]+% +([\d.]+)\S* +[\d.]+%  (.*)$", line)
        if match:
            rows[match[3].removesuffix(" (inline)")] = (float(match[1]), float(match[2]))
    return rows


def test_pprof_opens_its_files():
    pprof = go()
    d = flame(add_stacks, "-o", "out.pb.gz")
    text = pprof("-top", "-nodecount=1000", "-sample_index=samples", "-symbolize=none", d / "out.pb.gz")
    # frames of one name that differ elsewhere are one row there, as here
    got, wanted = top(text), totals()
    for name, (own, total) in wanted.items():
        shown = next((n for n in got if n == name.replace("\n", "\ufffd")), None)
        if "::" in name or name.isidentifier():  # pprof shortens what looks like C++ or is too odd
            check(shown is not None, f"pprof does not know {name}: {text}")
            equal(got[shown], (own, total), f"self and total of {name}")
    for kind, unit, total in (("off-cpu", "delay", sum(r[1] for r in OFF_CPU)), ("calls", "time", sum(r[2] for r in PATHS))):
        d = flame(add_stacks, "-o", "out.pb.gz", "--kind", kind)
        said = pprof("-raw", "-symbolize=none", d / "out.pb.gz")
        check(f"{unit}/nanoseconds[dflt]" in said, f"{kind}: {said[:300]}")
        samples = [int(m[1]) for m in re.finditer(r"^ +\d+ +(\d+): [\d ]+$", said, re.M)]
        equal(sum(samples), total, f"ns of {kind}")
    d = flame(add_stacks, "-o", "out.pb.gz", "--kind", "live")
    text = pprof("-raw", "-symbolize=none", d / "out.pb.gz")
    check("inuse_objects/count inuse_space/bytes[dflt]" in text, text[:300])
    d = flame(add_stacks, "-o", "out.pb.gz")
    check("7 samples do not reach" in pprof("-comments", d / "out.pb.gz"), "comments")
    d = flame(add_many, "-o", "big.pb.gz")
    pprof("-top", d / "big.pb.gz")


def test_pprof_files_are_gzip_and_the_same_each_time():
    d = flame(add_stacks, "-o", "1.pb.gz", "-o", "2.pb.gz")
    equal((d / "1.pb.gz").read_bytes(), (d / "2.pb.gz").read_bytes(), "two files of one snapshot")
    check(len(gzip.decompress((d / "1.pb.gz").read_bytes())) > 500, "nothing in it")


# ---- what is refused, what is kept ----


def refused(words, *args, change=add_stacks):
    d = Directory()
    d.snapshot(change)
    d.snapshot(lambda doc: None, "plain.json")
    d.snapshot(add_only_paths, "paths.json")
    before = d.names()
    done = d.run(*args)
    said = done.stderr.decode()
    equal((done.returncode, done.stdout, d.names()), (2, b"", before), f"{args}: {said}")
    check(re.search(words, said.splitlines()[0]), f"{args}: {said}")


def test_each_kind_has_a_tab():
    with open(ROOT / "daemon/export/flame/page.js") as f:
        tabs = re.search(r"^const TABS = \{(.*?)\};$", f.read(), re.M | re.S)[1]
    d = Directory()
    d.snapshot(add_stacks)
    said = d.run("flame", "in.json", "-o", "x.html", "--kind", "gpu").stderr.decode()
    kinds = re.search(r"--kind is one of (.*): ", said)[1].split(", ")
    check(len(kinds) >= 6, f"kinds: {said}")
    for kind in kinds:
        check(re.search(rf"(^|[ \t']){kind}'?: '", tabs), f"{kind} has none: {tabs}")


def test_flame_refuses_what_it_cannot_do():
    refused("flame needs the FILE", "flame", "-o", "x.html")
    refused("and -o FILE", "flame", "in.json")
    refused("unexpected argument", "flame", "in.json", "b", "-o", "x.html")
    refused("csv cannot hold a flamegraph", "flame", "in.json", "-o", "x.csv")
    refused("json cannot hold a flamegraph", "flame", "in.json", "-o", "-")
    refused("--kind is one of cpu, calls, off-cpu, wakers, live, alloc, live-calls, alloc-calls, mapped, faults: 'gpu'", "flame", "in.json", "-o", "x.html", "--kind", "gpu")
    refused("'plain.json' has no stacks to show", "flame", "plain.json", "-o", "x.html")
    refused(r"no CPU time \(recorded with --cpu-profile\); it has: calls", "flame", "paths.json", "-o", "x.html", "--kind", "cpu")
    refused("'plain.json' has no stacks", "flame", "in.json", "-o", "x.html", "--diff", "plain.json")
    refused("--pid does not go with flame", "flame", "in.json", "-o", "x.html", "--pid", "1")
    refused("--limit does not go with flame", "flame", "in.json", "-o", "x.html", "--limit", "3")
    refused("'x.calls.svg' contradicts --kind cpu", "flame", "in.json", "-o", "x.calls.svg", "--kind", "cpu")
    refused(r"no CPU time \(recorded", "flame", "paths.json", "-o", "x.html", "-o", "x.cpu.svg")
    refused(r"no live memory \(recorded with --memory stacks\); it has: calls", "report", "paths.json", "-o", "x.live.svg")
    refused("unknown output format 'svg-life'", "report", "in.json", "-o", "svg-life:x.svg")
    refused("--kind does not go with report", "report", "in.json", "--kind", "cpu")
    refused("names a frame that is none", "flame", "in.json", "-o", "x.html",
            change=lambda doc: doc.update(profiles={**profiles(), "frames": []}))


def test_stacks_survive_report():
    d = Directory()
    doc = d.snapshot(add_stacks)
    equal(d.run("report", "in.json", "-o", "out.json").returncode, 0, "report")
    got = json.loads((d / "out.json").read_text())
    for part in ("profiles", "paths"):
        equal(got[part], doc[part], part)
    for row, given in zip(got["memory"]["stacks"], doc["memory"]["stacks"], strict=True):
        equal({key: row[key] for key in given}, given, "memory.stacks")
    equal(d.run("report", "in.json", "-f", "*::digest", "-o", "out.json", "-o", "out.folded").returncode, 0, "report -f")
    kept = json.loads((d / "out.json").read_text())["paths"]
    equal([p["frames"][-1] for p in kept], [NAME_OF["digest"]] * 2, "paths to what was chosen")


def test_nothing_recorded_is_said():
    d = Directory()
    equal(d.run("report", SAVED, "-o", "x.folded", "-o", "x.svg", "-o", "x.html", "-o", "x.pb.gz", "-o", "x.speedscope.json").returncode, 0, "report")
    equal((d / "x.folded").read_bytes(), b"", "folded")
    check("none were recorded" in (d / "x.svg").read_text(), "svg")
    schema.speedscope(json.loads((d / "x.speedscope.json").read_text()))
    if shutil.which("go"):
        check("none were recorded" in go()("-comments", d / "x.pb.gz"), "pprof")
