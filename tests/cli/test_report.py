# SPDX-License-Identifier: BSD-2-Clause
"""roletrace report: a saved snapshot shown again."""

import json
import re

from checks import check, equal
from cli import SAVED, Directory


def report(*args):
    done = Directory().run("report", SAVED, "--width", 160, *args)
    equal((done.returncode, done.stderr), (0, b""), f"report {args}")
    return done.stdout.decode()


def rows(text):
    """The names in the table of functions, down to the next empty line."""
    lines = text.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("Function "))
    return [line.split()[0] for line in lines[start + 1 : lines.index("", start)]]


def test_report_of_a_saved_snapshot():
    text = report()
    check(text.startswith("demo_role (pid "), text[:100])
    equal(rows(text)[0], "demo_role::ledger::settle_batch", "most total first")
    check("Async function" in text and "Caller → callee" in text, text)
    check("\x1b" not in text, "colours where there is no terminal")
    equal(Directory().run("report", "-", "--width", 160, input=SAVED.read_bytes()).stdout.decode(), text, "from stdin")


def test_report_sorts_limits_filters():
    equal(rows(report("--sort", "calls"))[0], "demo_role::sha256::digest", "most calls")
    equal(len(rows(report("--limit", 2))), 3, "two rows, and how many more")
    names = rows(report("--sort", "name"))
    equal(names, sorted(names), "by name")
    text = report("-f", "*::share::*", "--exclude", "*closure*")
    functions = json.loads(SAVED.read_text())["functions"]
    wanted = {f["name"] for f in functions if "::share::" in f["name"] and "closure" not in f["name"]}
    called = {f["name"] for f in functions if f["name"] in wanted and f["calls"]}
    equal(set(rows(text)), called, "rows that match")
    check(f"Shown: {len(wanted)} of {len(functions)} traced functions" in text, text)
    equal(set(rows(report("--crate", "demo_*"))), set(rows(report())), "rows of the crate")


def refused(code, words, *args, change=None, text=None):
    d = Directory()
    d.snapshot(change or (lambda doc: None))
    if text is not None:
        (d / "in.json").write_bytes(text)
    before = d.names()
    done = d.run(*args)
    equal(done.returncode, code, f"exit code of {args}: {done.stderr}")
    said = done.stderr.decode().splitlines()
    check(re.search(words, said[0]), f"{args}: {said}")
    check(len(said) == 1 or said[1].startswith("Try "), f"one line: {said}")
    equal(done.stdout, b"", f"output of {args}")
    equal(d.names(), before, "files")


def test_report_refuses_what_it_cannot_do():
    refused(2, "report needs the FILE", "report")
    refused(2, "unexpected argument 'b'", "report", "in.json", "b")
    refused(1, "cannot read 'none': No such file", "report", "none")
    refused(1, "cannot read '.': Is a directory", "report", ".")
    refused(2, "--pid does not go with report", "report", "in.json", "--pid", 1)
    refused(2, "--raw does not go with report", "report", "in.json", "--raw")
    refused(2, "--width does not go with tracing", "--pid", 1, "--width", 80)
    refused(2, "--duration does not go with check", "check", "-d", 1)
    refused(2, "--output does not go with list", "list", "--exe", "in.json", "-o", "x.csv")
    refused(2, "--sort is one of", "report", "in.json", "--sort", "size")
    refused(2, "--limit needs a number", "report", "in.json", "--limit", "0")
    refused(2, "--limit needs a number", "report", "in.json", "--limit", "7x")
    refused(2, "--width needs a number", "report", "in.json", "--width", "-1")
    refused(2, "'nothing' matches nothing", "report", "in.json", "-f", "*", "-f", "nothing")
    refused(2, "'nothing' matches nothing", "report", "in.json", "--crate", "nothing")
    refused(2, "leaves no function", "report", "in.json", "--exclude", "*")


def test_report_refuses_what_is_no_snapshot():
    args = ("report", "in.json", "-o", "out.csv")
    refused(2, "'in.json' is no snapshot: line 1", *args, text=b"")
    refused(2, "'in.json' is no snapshot: line 1", *args, text=b"\x7fELF\x02\x01")
    refused(2, "'in.json' is no snapshot: it has no \"schema\"", *args, text=b'{"functions":[]}')
    refused(2, "'in.json' is no snapshot: line", *args, text=SAVED.read_bytes()[:5000])
    refused(2, 'schema is "roletrace.snapshot/2"', *args, change=lambda d: d.update(schema="roletrace.snapshot/2"))
    refused(2, r"functions\[3\].calls is missing", *args, change=lambda d: d["functions"][3].pop("calls"))
    refused(2, r"functions\[0\].sites is no int", *args, change=lambda d: d["functions"][0].update(sites=-1))
    refused(2, "maximum parsing depth", *args, text=b"[" * 100000)
    refused(1, "cannot read 'in.json': Cannot allocate memory", *args, text=b"[" + b"{}," * 2000000 + b"{}]")
