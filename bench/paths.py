# SPDX-License-Identifier: BSD-2-Clause
"""What call paths cost a traced call: roletrace beside a build of it without them, in turns."""
import os
import statistics
import time

from common import BUILD, ROLETRACE, Target, Tracer, program_ns, table

WITHOUT = os.path.join(BUILD, "bench", "without-paths", "roletrace")
CALLS = 5000
ROUNDS = int(os.environ.get("ROUNDS", 5))


def measure(target, program, fn, mode):
    tracer = Tracer([program, "--pid", str(target.pid), "--memory", "off", "--no-threads", "--budget", "off",
                     "-o", "json:/dev/null", "-f", fn, "--exit", mode], "attached to")
    time.sleep(0.2)
    target.ask(fn, CALLS)
    call = min(target.ask(fn, CALLS) for _ in range(5))
    inside = min(program_ns(tracer.p.pid, lambda: target.ask(fn, CALLS)) for _ in range(5)) / CALLS
    tracer.stop()
    return call, inside


def paths():
    rows = []
    with Target() as t:
        for fn, mode in (("bench_push", "uretprobe"), ("bench_edge", "auto")):
            got = {}
            for _ in range(ROUNDS):
                for name, program in (("with", ROLETRACE), ("without", WITHOUT)):
                    got.setdefault(name, []).append(measure(t, program, fn, mode))
            mid = {name: [statistics.median(c for c, _ in g), min(i for _, i in g)] for name, g in got.items()}
            with_, without = mid["with"], mid["without"]
            rows.append([fn, mode, *(f"{x:.0f}" for x in (with_[0], without[0], with_[0] - without[0],
                                                          with_[1], without[1], with_[1] - without[1]))])
    table(f"Call paths, ns per traced call ({ROUNDS} attachments: medians; in the programs the least)",
          ["function", "--exit", "a call", "without paths", "paths", "in the programs", "without paths", "paths"], rows)
