# SPDX-License-Identifier: BSD-2-Clause
"""Completion, the manual and the README know every option that --help knows."""

import os
import re
import shutil
import subprocess

from checks import Skip, check, equal
from cli import ROOT, Directory

FILES = {shell: ROOT / "packaging/completion" / name for shell, name in
         {"bash": "roletrace.bash", "zsh": "_roletrace", "fish": "roletrace.fish"}.items()}
BY_ARGP = {"help", "usage", "version"}


def help_text():
    return Directory().run("--help").stdout.decode()


def options():
    return set(re.findall(r"^ +(?:-., +)?--([a-z-]+)", help_text(), re.M))


def commands():
    return set(re.findall(r"\[OPTION\.\.\.\] ([a-z]+)", help_text()))


def test_every_option_is_completed():
    check({"pid", "output", "sort", "help"} <= options(), f"options in --help: {options()}")
    equal(commands(), {"list", "check", "report", "flame"}, "commands in --help")
    for shell, path in FILES.items():
        text = path.read_text()
        known = set(re.findall(r"-l ([a-z-]+)" if shell == "fish" else r"--([a-z][a-z-]*)", text))
        known -= {"null", "local", "regex", "current-token"}  # fish's own
        equal(known ^ options(), set(), f"options that only --help or only {path.name} knows")
        for command in commands():
            check(re.search(rf"\b{command}\b", text), f"{path.name} knows no {command}")


def test_every_option_is_documented():
    for name, form in (("docs/roletrace.8", r"Fl -{}\b"), ("README.md", r"`[^`]*--{}\b")):
        text = (ROOT / name).read_text()
        for option in options() - (BY_ARGP if name == "README.md" else {"usage"}):
            pattern = form.format(option.replace("-", r"\\?-") if name.endswith("8") else option)
            check(re.search(pattern, text), f"{name} has no --{option}")


def bash(*words):
    """What bash offers after these words."""
    script = '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _roletrace; printf "%s\\n" "${COMPREPLY[@]}" .'
    done = subprocess.run(["bash", "-c", script, FILES["bash"], "roletrace", *words],
                          cwd=ROOT, capture_output=True, text=True, timeout=30)
    equal(done.stderr, "", f"bash on {words}")
    return done.stdout.split("\n")[:-2]


def test_bash_completes():
    equal(set(bash("")), commands(), "commands")
    offered = {word.removeprefix("--") for part in ([], ["list"], ["report"], ["flame"]) for word in bash(*part, "--")}
    equal(offered, options(), "options")
    equal(bash("report", "x", "--wi"), ["--width"], "an option of report")
    equal(bash("check", "--"), ["--pid", "--memory", "--allocator", "--verbose"], "options of check")
    equal(bash("-o", "cs"), ["csv:", "csv-buckets:", "csv-threads:"], "formats")
    equal(bash("-o", "csv", ":", "READ"), ["README.md"], "files behind a format")
    equal(bash("report", "READ"), ["README.md"], "files to report")
    equal(bash("flame", "READ"), ["README.md"], "files to draw")
    equal(bash("--kind", "c"), ["cpu", "calls"], "kinds")
    equal(bash("--sort", ""), "total calls avg p95 max self name".split(), "orders")
    check("sites" in bash("--exit", "="), "values behind =")
    equal(bash("--", "report", "--so"), [], "options of the command to trace")
    check("sleep" in bash("--", "slee"), "a command to trace")


def test_bash_completes_processes():
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        pid = str(sleeper.pid)
        equal(bash("--pid", pid), [pid] if len(bash("--pid", pid)) == 1 else bash("--pid", pid), "a pid")
        found = bash("--pid", "slee")
        check(pid in found or f"{pid} (sleep)" in found, f"by name: {found}")
        check(any(pid in word for word in bash("-p", "")), "among all")
        equal(bash("--name", "slee"), ["sleep"], "a name")
    finally:
        sleeper.kill()
        sleeper.wait()


def syntax(shell):
    if not shutil.which(shell):
        raise Skip(f"{shell} is missing")
    done = subprocess.run([shell, "-n", FILES[shell]], capture_output=True, text=True)
    equal((done.returncode, done.stderr), (0, ""), f"{shell} -n")


def test_zsh_reads_its_file():
    syntax("zsh")


def test_fish_reads_its_file():
    syntax("fish")


def test_install_puts_all_in_place():
    d = Directory()
    out = os.path.dirname(os.path.abspath(os.environ.get("ROLETRACE", ROOT / "build/roletrace")))
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "MFLAGS"}
    done = subprocess.run(["make", "-s", "-o", f"{out}/roletrace", "install", f"O={out}", f"DESTDIR={d.path}", "PREFIX=/usr"],
                          cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    equal(done.returncode, 0, f"make install: {done.stderr}")
    for name in ("bin/roletrace", "share/man/man8/roletrace.8", "share/roletrace/profiles/stratum.conf",
                 "share/bash-completion/completions/roletrace", "share/zsh/site-functions/_roletrace",
                 "share/fish/vendor_completions.d/roletrace.fish"):
        check((d / "usr" / name).is_file(), f"{name} is not installed")
