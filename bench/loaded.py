# SPDX-License-Identifier: BSD-2-Clause
"""bench_role under load: a server of fixed work per request on one CPU, its clients on another, both
before whatever else wants to run there."""
import json
import os
import subprocess
import time

from common import BUILD, pin

ROLE = os.path.join(BUILD, "cargo", "release", "bench_role")
CONNECTIONS = 4
RATE = 500  # requests a second, of 100 and some allocations each
SERVER_CPU, CLIENT_CPU = 0, 1 % os.cpu_count()


FIRST = -20  # the best a process gets without being a real-time one


class Role:
    def __init__(self, command=()):
        self.p = subprocess.Popen([*command, ROLE, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        words = [""]
        while words[:1] != ["ready"]:
            line = self.p.stdout.readline()
            assert line, "the role ended"
            words = line.split()
        self.pid, self.port = int(words[1]), words[2]
        pin(self.pid, SERVER_CPU)  # itself, not what started it
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            os.setpriority(os.PRIO_PROCESS, int(tid), FIRST)

    def held(self):
        self.p.stdin.write("held\n")
        self.p.stdin.flush()
        return int(self.p.stdout.readline())

    def cpu_s(self):
        return time.clock_gettime(~self.pid << 3 | 2)  # the process's CPU clock

    def begin(self, rate, seconds):
        argv = ["nice", "-n", str(FIRST), "taskset", "-c", str(CLIENT_CPU), ROLE, "load", self.port, str(CONNECTIONS), str(rate), str(seconds)]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)

    def load(self, rate, seconds):
        before = self.cpu_s()
        got = json.loads(self.begin(rate, seconds).communicate()[0])
        got["cpu_us"] = (self.cpu_s() - before) / got["requests"] * 1e6
        got["per_s"] = got["requests"] / got["seconds"]
        return got

    def end(self):
        self.p.stdin.close()
        said = self.p.stdout.read()
        self.p.wait()
        return said
