#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The lab: real Stratum V2 roles under load, on loopback, each on a free port.
lab.py build              builds them into the cache ($ROLETRACE_CACHE, ~/.cache/roletrace), once
lab.py up [MINERS RATE]   runs template provider, pool, translator and miners until Ctrl-C"""

import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CACHE = (
    pathlib.Path(os.environ.get("ROLETRACE_CACHE") or pathlib.Path.home() / ".cache/roletrace")
    / "roles"
)
ROLES = {"translator_sv2": "0.6.0", "pool_sv2": "0.7.0"}
RUST_MIN = (1, 88)


class LabError(Exception):
    pass


def say(text):
    print(f"lab: {text}", flush=True)


# Building, once per version


def is_installed(role):
    try:
        marks = (CACHE / ".crates.toml").read_text()
    except OSError:
        return False
    return f'"{role} {ROLES[role]} ' in marks and os.access(CACHE / "bin" / role, os.X_OK)


def template_provider():
    """Its name says which sources it was built from."""
    digest = hashlib.sha256()
    for file in ("Cargo.toml", "Cargo.lock", "src/main.rs"):
        digest.update((HERE / "template-provider" / file).read_bytes())
    return CACHE / "bin" / f"template_provider-{digest.hexdigest()[:12]}"


def cargo(what, *args):
    say(f"building {what} into {CACHE}: the first time takes many minutes")
    start = time.monotonic()
    log = CACHE / "build.log"
    with open(log, "w") as out:
        process = subprocess.Popen(
            ["nice", "cargo", *args], stdout=out, stderr=out, stdin=subprocess.DEVNULL
        )
    while process.poll() is None:
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            last = (log.read_text().strip().splitlines() or [""])[-1].strip()
            say(f"{(time.monotonic() - start) / 60:.0f} min: {last}")
    if process.returncode:
        tail = log.read_text().strip().splitlines()[-15:]
        raise LabError(f"building {what} failed; the end of {log}:\n    " + "\n    ".join(tail))
    say(f"built {what} in {time.monotonic() - start:.0f} s")


def is_built():
    return all(map(is_installed, ROLES)) and template_provider().exists()


def build():
    CACHE.mkdir(parents=True, exist_ok=True)
    target = str(CACHE / "target")
    for role, version in ROLES.items():
        if not is_installed(role):
            cargo(
                f"{role} {version}",
                "install",
                role,
                "--version",
                f"={version}",
                "--locked",
                "--force",
                "--root",
                str(CACHE),
                "--target-dir",
                target,
            )
    provider = template_provider()
    if not provider.exists():
        cargo(
            "the template provider",
            "build",
            "--release",
            "--locked",
            "--manifest-path",
            str(HERE / "template-provider/Cargo.toml"),
            "--target-dir",
            target,
        )
        provider.parent.mkdir(exist_ok=True)
        shutil.copy(f"{target}/release/template_provider", f"{provider}.new")
        os.rename(f"{provider}.new", provider)


# Running


def free_ports(names):
    held = []
    for name in names:
        s = socket.socket()
        s.bind(("127.0.0.1", 0))
        held.append((name, s))
    ports = {name: s.getsockname()[1] for name, s in held}
    for _, s in held:
        s.close()
    return ports


def listens(port):
    sockets = (line.split() for line in open("/proc/net/tcp"))
    return any(s[1] == f"0100007F:{port:04X}" and s[3] == "0A" for s in sockets)


class Miners:
    def __init__(self, process):
        self.process = process

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise LabError(f"the miners ended: {self.process.wait()}")
        return json.loads(line)


class Lab:
    """Everything it starts it also ends: use it as a context."""

    def __enter__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="roletrace-lab-"))
        self.ports = free_ports(
            ["TEMPLATES", "POOL", "POOL_METRICS", "TRANSLATOR", "TRANSLATOR_METRICS"]
        )
        self.processes = []
        try:
            self.start(
                "template_provider",
                template_provider(),
                f"127.0.0.1:{self.ports['TEMPLATES']}",
                "5000",  # ms per template
                "1000000",  # templates per block: a new block makes shares on their way stale
            )
            self.wait_port("TEMPLATES")
            self.pool = self.start("pool", CACHE / "bin/pool_sv2", "-c", self.config("pool"))
            self.wait_port("POOL")
            self.translator = self.start(
                "translator", CACHE / "bin/translator_sv2", "-c", self.config("translator")
            )
            self.wait_port("TRANSLATOR")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        patience = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C changes nothing
        for _, process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
        signal.signal(signal.SIGINT, patience)

    def config(self, name):
        text = (HERE / f"{name}.toml").read_text()
        for port, number in self.ports.items():
            text = text.replace(f"@{port}@", str(number))
        path = self.directory / f"{name}.toml"
        path.write_text(text)
        return str(path)

    def start(self, name, *argv, **kwargs):
        log = open(self.directory / f"{name}.log", "w")
        kwargs = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, **kwargs}
        env = {"RUST_LOG": "warn", **os.environ}
        process = subprocess.Popen([str(a) for a in argv], cwd=self.directory, env=env, **kwargs)
        log.close()
        self.processes.append((name, process))
        return process

    def log_tail(self, name):
        return "\n    ".join((self.directory / f"{name}.log").read_text().strip().splitlines()[-8:])

    def wait_port(self, port, seconds=30):
        name, process = self.processes[-1]
        end = time.monotonic() + seconds
        while not listens(self.ports[port]):
            if process.poll() is not None or time.monotonic() > end:
                raise LabError(f"{name} does not listen:\n    {self.log_tail(name)}")
            time.sleep(0.1)

    def start_miners(self, count, rate):
        process = self.start(
            "miners",
            sys.executable,
            HERE / "miner.py",
            self.ports["TRANSLATOR"],
            count,
            rate,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return Miners(process)

    def end_role(self, process, by=signal.SIGINT, seconds=20):
        """Its exit code."""
        process.send_signal(by)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def up(count, rate):
    with Lab() as lab:
        miners = lab.start_miners(count, rate)
        pids = ", ".join(f"{name} {p.pid}" for name, p in lab.processes)
        say(f"{pids}; logs in {lab.directory}; Ctrl-C ends it")
        try:
            while True:
                time.sleep(5)
                say(miners.ask("stats"))
        except KeyboardInterrupt:
            pass


def main(argv):
    try:
        if argv == ["build"]:
            build()
        elif argv[:1] == ["up"] and len(argv) in (1, 3):
            build()
            up(int(argv[1]), float(argv[2])) if argv[1:] else up(50, 2.0)
        else:
            sys.exit(__doc__)
    except LabError as e:
        sys.exit(f"lab: {e}")


if __name__ == "__main__":
    main(sys.argv[1:])
