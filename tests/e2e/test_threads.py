# SPDX-License-Identifier: BSD-2-Clause
"""Threads: where their time goes, against their own clocks and the kernel's."""

import json
import os
import subprocess
import threading
import time

import harness
from harness import Fixture, Trace, check, close, equal, scratch
from snapshot import Snapshot


def off_cpu(t):
    return sum(t["off_cpu_ns"].values())


def threads(snapshot, name=None):
    return [t for t in snapshot.doc["threads"] if name is None or t["name"] == name]


def thread(snapshot, tid):
    return next(t for t in snapshot.doc["threads"] if t["tid"] == tid)


def adds_up(snapshot):
    """Every moment of every thread is booked once."""
    for t in threads(snapshot):
        whole = t["cpu_ns"] + t["stolen_ns"] + t["run_queue_ns"] + off_cpu(t)
        close(whole, t["observed_ns"], 0.01, f"{t['name']} {t['tid']}: all its times")
        equal(t["switches"], t["voluntary"] + t["involuntary"], f"{t['name']}: switches")
        if t["tid"]:
            check(
                t["observed_ns"] <= snapshot.doc["window"]["duration_ns"],
                f"{t['name']} lived longer than the window: {t['observed_ns']}",
            )
    for name in ("threads_full", "futexes_full", "waits_histogram_full", "switches_skipped"):
        equal(snapshot.lost[name], 0, f"lost.{name}")


def kernel_accounts(pid):
    """tid: (ns on a CPU, ns waiting for one) since its birth."""
    found = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/schedstat") as f:
            found[int(tid)] = [int(x) for x in f.read().split()[:2]]
    return found


def states(*args, command=("chrt", "-f", "1")):
    try:
        subprocess.run([*command, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        command = ()  # no real-time priority to be had here: disturbed, then
    place = os.getcwd()
    os.chdir(scratch())  # the writer's file
    try:
        return Fixture("states", *args, exe=os.path.join(place, harness.FIXTURES, "states"), command=command)
    finally:
        os.chdir(place)


def test_states_are_the_fixtures_own():
    f = states()
    before = kernel_accounts(f.pid)
    t = Trace(f, "--no-functions", functions=())
    truth = f.go()
    snapshot = t.stop()
    after = kernel_accounts(f.pid)
    adds_up(snapshot)
    for name, wanted in truth.items():
        got = thread(snapshot, wanted["tid"])
        equal(got["name"], name, f"name of {wanted['tid']}")
        state = next(k for k in wanted if k not in ("tid", "cpu", "steps"))
        blocked = got["off_cpu_ns"][state]
        # what the thread measures ends when it runs again: its waits for a CPU are in it, and what
        # a hypervisor took from the CPU it ran on
        queue = got["run_queue_ns"]
        at_least = wanted[state] - queue - got["stolen_ns"] - wanted["cpu"]
        check(
            at_least * 0.97 <= blocked <= wanted[state] * 1.03 + 5e6,
            f"{name}: {state} for {blocked / 1e6:.1f} ms, itself measured {wanted[state] / 1e6:.1f} ms"
            f" (of it waiting for a CPU {queue / 1e6:.1f} ms, stolen {got['stolen_ns'] / 1e6:.1f} ms)",
        )
        ran, waited = (b - a for a, b in zip(before[wanted["tid"]], after[wanted["tid"]]))
        # the kernel counts the switching itself to the thread, some µs each
        check(
            abs(got["cpu_ns"] - ran) <= 0.02 * ran + 3e6 + 20e3 * got["switches"],
            f"{name}: on a CPU {got['cpu_ns']}, by the kernel's accounts {ran}",
        )
        # for us it is ready once it is woken, for the kernel once its CPU has been woken too
        check(
            0.9 * waited - 10e6 <= queue <= 1.1 * waited + 10e6 + 100e3 * sum(got["wakeups"].values()),
            f"{name}: waited {queue} for a CPU, by the kernel's accounts {waited}",
        )
    check(0.1 < thread(snapshot, truth["burner"]["tid"])["cpu_max_ratio"] < 0.6, "CPU of the burner")
    f.finish()


def test_who_woke_whom():
    f = states()
    t = Trace(f, "--no-functions", functions=())
    truth = f.go()
    snapshot = t.stop()
    ticks = truth["ticker"]["steps"]
    for name in ("waiter", "reader", "piper"):
        got = thread(snapshot, truth[name]["tid"])
        by_ticker = [w["count"] for w in got["wakers"] if w["tid"] == truth["ticker"]["tid"]]
        check(by_ticker and by_ticker[0] >= 0.8 * ticks, f"{name} was woken {by_ticker}, ticks {ticks}")
        check(got["wakeups"]["interrupt"] <= 5, f"{name}: woken by interrupts: {got['wakeups']}")
    for name in ("sleeper", "poller"):
        got = thread(snapshot, truth[name]["tid"])
        check(
            got["wakeups"]["interrupt"] >= 0.9 * truth[name]["steps"],
            f"{name}: woken by its timer {got['wakeups']}, slept {truth[name]['steps']} times",
        )
    f.finish()


def test_user_and_system_time():
    """The split is the kernel's own, of ticks."""
    f = Fixture("traffic", 2, 5)
    t = Trace(f, "--no-functions", functions=())
    f.say("go")
    ticks = {}
    time.sleep(0.2)
    for tid in os.listdir(f"/proc/{f.pid}/task"):
        with open(f"/proc/{f.pid}/task/{tid}/stat") as stat:
            ticks[int(tid)] = [int(x) for x in stat.read().rpartition(")")[2].split()[11:13]]
    time.sleep(2)
    done = {}
    for tid in ticks:
        with open(f"/proc/{f.pid}/task/{tid}/stat") as stat:
            done[tid] = [int(x) for x in stat.read().rpartition(")")[2].split()[11:13]]
    snapshot = t.stop()
    for tid in ticks:
        user, system = (10e6 * (b - a) for a, b in zip(ticks[tid], done[tid]))
        got = thread(snapshot, tid)
        if user + system < 500e6:
            continue
        equal(got["user_ns"] + got["system_ns"], got["cpu_ns"], "user and system")
        mine = got["user_ns"] / got["cpu_ns"]
        check(abs(mine - user / (user + system)) < 0.1, f"{tid}: user share {mine}, {user} {system}")
    f.ask("quiesce")
    f.finish()


def test_threads_without_functions_or_symbols():
    """A stripped C program: nothing to probe, threads all the same."""
    exe = os.path.join(scratch(), "stripped")
    subprocess.run(["strip", "-s", "-o", exe, os.path.join(harness.FIXTURES, "states")], check=True)
    f = Fixture("states", exe=exe)
    t = Trace(f, functions=())
    snapshot = t.stop()
    equal(snapshot.functions, [], "functions")
    equal(len(threads(snapshot)), 11, "threads")
    adds_up(snapshot)
    check("No function was probed" in "\n".join(t.stdout), f"the report: {t.stdout}")
    check(any("Thread" in line and "TID" in line for line in t.stdout), f"the report: {t.stdout}")
    table = t.stdout[next(i for i, line in enumerate(t.stdout) if line.startswith("Thread")) :]
    table = table[: table.index("")]
    equal(len(table), 12, "lines of the table")
    check(max(map(len, table)) <= 80, f"more than 80 columns: {table}")
    f.finish()


def test_no_threads():
    f = Fixture("calls")
    t = Trace(f, "--no-threads")
    snapshot = t.stop()
    check("threads" not in snapshot.doc, "threads in the file")
    check("threads_full" not in snapshot.lost, f"lost {snapshot.lost}")
    f.finish()


def test_short_threads_are_added_up():
    f = Fixture("thread_deaths", 20000)
    t = Trace(f)
    f.go()
    snapshot = t.stop()
    dead = [x for x in threads(snapshot) if not x["tid"]]
    equal([(x["name"], x["state"]) for x in dead], [("thread_deaths", "exited")], "rows of the dead")
    check(dead[0]["count"] >= 20000, f"threads that ended: {dead[0]['count']}")
    check(len(threads(snapshot)) < 50, f"{len(threads(snapshot))} rows")
    adds_up(snapshot)
    queue = dead[0]["run_queue"]
    equal(
        queue["histogram"]["zero_count"] + sum(queue["histogram"]["counts"]) + queue["histogram_lost"],
        queue["count"],
        "run-queue waits of the dead",
    )
    check(queue["count"] >= dead[0]["count"], "each of them waited for a CPU at least once")
    f.finish()


def jobs_are_told(snapshot, truth):
    """Short threads by their names, against their own clocks; the rest, which found no row, in one."""
    adds_up(snapshot)
    dead = {x["name"]: x for x in threads(snapshot) if not x["tid"]}
    for name in ("job-a", "job-b"):
        equal(dead[name]["count"], truth[name]["count"], f"threads called {name}")
        equal(dead[name]["state"], "exited", f"state of {name}")
        # starting and ending are not in their own clocks
        ours, own = dead[name]["cpu_ns"], truth[name]["cpu_ns"]
        check(own * 0.98 <= ours <= own * 1.1 + 0.3e6 * truth[name]["count"], f"CPU of {name}: {ours}, own {own}")
    once = [x for name, x in dead.items() if name.startswith("once-")]
    rest = dead.get("exited", {"count": 0})["count"]
    equal(sum(x["count"] for x in once) + rest, truth["once"]["count"], f"threads of other names: {list(dead)}")
    equal(len(dead) - ("exited" in dead), min(2 + truth["once"]["count"], 63), "names with a row")
    return dead


def test_short_threads_keep_their_names():
    f = Fixture("thread_jobs", 30, 20)
    t = Trace(f, "--no-functions", functions=())
    truth = f.go()
    snapshot = t.stop()
    dead = jobs_are_told(snapshot, truth)
    check("exited" not in dead, f"without a name: {list(dead)}")
    equal([x["state"] for x in threads(snapshot, "stays")], ["other"], "the one that lives")
    lines = [line.split()[:3] for line in t.stdout if line.startswith(("job-a", "job-b"))]
    equal(lines, [["job-b", "x30", "exited"], ["job-a", "x30", "exited"]], "the report's rows")
    f.finish()


def test_short_threads_of_more_names_than_rows():
    f = Fixture("thread_jobs", 10, 100)
    t = Trace(f, "--no-functions", "-i", "0.2", functions=())
    truth = f.go()
    dead = jobs_are_told(t.stop(), truth)
    check(dead["exited"]["count"] >= 39, f"without a row: {dead['exited']['count']}")
    check(any(line.split()[:2] == ["exited", f"x{dead['exited']['count']}"] for line in t.stdout), f"{t.stdout}")
    f.finish()


def test_short_threads_of_a_command():
    """From its first instruction to its end: the short ones by name, those that were there to the last
    with their own."""
    file = os.path.join(scratch(), "command.json")
    done = harness.roletrace(
        *("-o", file, "--no-functions", "--", os.path.join(harness.FIXTURES, "thread_jobs"), "20", "5"),
        input="go\nquit\n",
    )
    equal(done.returncode, 0, f"exit code: {done.stderr}")
    truth = next(json.loads(line)["truth"] for line in done.stdout.split("\n") if line.startswith('{"truth"'))
    with open(file) as content:
        snapshot = Snapshot(json.load(content))
    jobs_are_told(snapshot, truth)
    last = {x["name"]: x["state"] for x in threads(snapshot) if x["tid"]}
    equal(last, {"thread_jobs": "exited", "stays": "exited"}, "threads at the end")


def test_b2_more_threads_than_rows():
    f = Fixture("overflow", "threads", 1500)
    t = Trace(f, "--no-functions", functions=())
    f.go()
    snapshot = t.stop(seconds=60)
    rows = threads(snapshot)
    check(1000 <= len(rows) < 1024, f"{len(rows)} rows")
    check(snapshot.lost["threads_full"] >= 1500 - len(rows), f"lost {snapshot.lost}")
    equal(snapshot.doc["health"]["status"], "degraded", "health")
    check(any("threads_full" in r for r in snapshot.doc["health"]["reasons"]), "the reason")
    # with so many there at the start, there is room for four times as many
    t = Trace(f, "--no-functions", functions=())
    snapshot = t.stop(seconds=60)
    equal(len(threads(snapshot)), 1501, "rows")
    equal(snapshot.lost["threads_full"], 0, "lost")
    adds_up(snapshot)
    f.finish()


def test_b2_more_futexes_than_places():
    f = Fixture("overflow", "futexes", 4000)
    t = Trace(f, "--no-functions", functions=())
    truth = f.go()
    snapshot = t.stop()
    listed = sum(x["waits"] for x in snapshot.doc["locks"])
    rest = snapshot.doc["lock_waits_unlisted"]
    lost = snapshot.lost["futexes_full"]
    check(lost > 1000 and rest > 1000 and listed >= 200, f"listed {listed}, not {rest}, lost {lost}")
    # a timer that fires before its thread has gone to sleep: no wait
    close(listed + rest + lost, truth["waits"], 0.01, "waits that are accounted for")
    equal(snapshot.doc["health"]["status"], "degraded", "health")
    f.finish()


def test_process_that_ends_keeps_its_threads():
    f = Fixture("traffic", 3, 5, "exit", 0)
    t = Trace(f, functions=())
    f.say("go")
    snapshot = t.wait()
    names = [x["name"] for x in threads(snapshot) if x["tid"]]
    check(len(names) >= 2, f"threads at the end: {names}")
    check(sum(x["cpu_ns"] for x in threads(snapshot)) > 0, "CPU of the ended")
    adds_up(snapshot)
    f.finish()


def test_other_namespace_has_both_ids():
    harness.need_namespaces()
    f = Fixture("states", command=["unshare", "-p", "-f", "--kill-child"])
    t = Trace(f, "--no-functions", functions=())
    truth = f.go()
    snapshot = t.stop()
    for name, wanted in truth.items():
        got = next(x for x in threads(snapshot) if x["ns_tid"] == wanted["tid"])
        equal(got["name"], name, "thread of the inner id")
        check(os.path.exists(f"/proc/{f.pid}/task/{got['tid']}"), f"outer id {got['tid']}")
    adds_up(snapshot)
    f.finish()


def test_names_cut_in_a_character():
    """X1: valid text everywhere, threads of one name apart."""
    f = Fixture("thread_names")
    t = Trace(f, "--no-functions", "-o", "prom:" + os.path.join(scratch(), "x.prom"), functions=())
    truth = f.go()
    snapshot = t.stop()
    rows = threads(snapshot)
    for tid in truth["tids"]:
        check(thread(snapshot, tid)["name"], f"thread {tid}")
    equal(len({x["tid"] for x in rows}), len(rows), "threads that are told apart")
    check(any("\ufffd" in x["name"] for x in rows), "no name was cut: the test sees nothing")
    f.finish()


def test_idle_neighbours_cost_little():
    """Switches of others leave the programs at once: a pipe ping-pong beside a traced process."""
    f = Fixture("states")

    def round_trips():
        a, b = os.pipe(), os.pipe()

        def echo():
            while os.read(a[0], 1) == b"x":
                os.write(b[1], b"x")

        other = threading.Thread(target=echo, daemon=True)
        other.start()
        end, n = time.monotonic() + 0.5, 0
        while time.monotonic() < end:
            os.write(a[1], b"x")
            os.read(b[0], 1)
            n += 1
        os.write(a[1], b"q")
        other.join()
        for fd in (*a, *b):
            os.close(fd)
        return n

    best = {False: 0, True: 0}
    for _ in range(6):
        for traced in (False, True):
            t = Trace(f, "--no-functions", functions=()) if traced else None
            best[traced] = max(best[traced], round_trips())
            if t:
                t.stop()
        if best[True] > 0.85 * best[False]:
            break
    check(best[True] > 0.75 * best[False], f"round trips of a neighbour without and with: {best}")
    f.finish()
