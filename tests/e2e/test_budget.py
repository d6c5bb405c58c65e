# SPDX-License-Identifier: BSD-2-Clause
"""The budget: what is too dear is watched less, soon, and says so; what is said to be exact is."""

import os
import random
import re
import signal
import time

import bpf
from harness import Fixture, Skip, Trace, check, equal, until

HOT = 0  # SPIN of fixture rates: some hundred million calls a second
BUSY = 300  # a few million


def rates(*args):
    return Fixture("rates", *args)


def cpu_ticks(f):
    """(user, system) of the hot threads: probes are system time, the loops are user time."""
    user = system = 0
    for tid in os.listdir(f"/proc/{f.pid}/task"):
        with open(f"/proc/{f.pid}/task/{tid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        user += int(fields[11])
        system += int(fields[12])
    return user, system


def probes_share(f, seconds):
    """The part of its CPU time that the target spends in the kernel, in CPUs."""
    user, system = cpu_ticks(f)
    start = time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - start
    return (cpu_ticks(f)[1] - system) / os.sysconf("SC_CLK_TCK") / took


def steps(snapshot, name):
    return [(s["from"], s["to"]) for s in snapshot.doc["overhead"]["shed"] if s["name"] == name]


def exact_rows_are_exact(snapshot, truth, *but):
    for name, row in truth.items():
        for r in snapshot.rows(name):
            if r["coverage"] == "exact":
                check(name not in but, f"{name} claims to be exact: {r}")
                equal((r["calls"], r["sampled"]), (row["calls"], None), f"calls of exact {name}")
            else:
                check(r["sampled"], f"{name}: {r['coverage']}, and does not say how: {r}")


def shed_while_running(f, name):
    """A loop gets hot under full probes: they are gone within the second, and it runs as before."""
    f.say("spin")
    t = Trace(f, budget="2")
    equal(int(t.attached[4]), 2 * t.function_count, "probes at first")
    f.say("go")
    time.sleep(0.5)
    f.say(f"spin {HOT}")
    begun = time.monotonic()
    until(
        lambda: any(f"'{name}' exact -> " in line for line in list(t.stderr)),
        5,
        f"{name} is not shed; {t.said()}",
    )
    took = time.monotonic() - begun
    check(took < 1, f"{took:.2f} s until {name} was shed")
    time.sleep(max(0, 1.5 - took))  # on a busy machine breakpoints go one by one
    share = probes_share(f, 3)
    truth = f.ask("quiesce")["truth"]
    snapshot = t.stop()
    f.say("go")
    share -= probes_share(f, 2)  # what the kernel takes of it anyway
    f.ask("quiesce")
    check(share < 0.04, f"the target spends {share:.1%} of a CPU on probes after a second")
    exact_rows_are_exact(snapshot, truth, name)
    row = snapshot.row(name)
    how = row["sampled"]
    equal((how["mode"], how["count"]), ("off", "lower-bound"), f"how {name} is watched: {how}")
    check(
        row["calls"] <= how["calls_estimated"] <= truth[name]["calls"],
        f"at least {how['calls_estimated']} calls, {row['calls']} seen, truth {truth[name]}",
    )
    equal(steps(snapshot, name)[0][0], "exact", "first step from")
    equal(snapshot.doc["health"]["status"], "degraded", "health")
    check(snapshot.doc["overhead"]["cpu_ratio"] < 0.5, f"{snapshot.doc['overhead']}")
    f.finish()


def test_budget_sheds_a_hot_loop_within_a_second():
    shed_while_running(rates(1, HOT), "traced_hot")


def test_budget_sheds_on_eight_threads():
    shed_while_running(rates(8, HOT), "traced_hot")


def test_budget_p9_malloc_wrapper_on_eight_threads():
    shed_while_running(rates(8, HOT, "malloc"), "traced_wrapper")


def wake_ups(pid, seconds):
    """How often a process that does nothing goes to sleep, per second."""

    def switches():
        with open(f"/proc/{pid}/status") as f:
            return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", f.read(), re.M)[1])

    before = switches()
    time.sleep(seconds)
    return (switches() - before) / seconds


def test_budget_a_quiet_target_lets_the_daemon_sleep():
    """And the first function that gets hot wakes it: shed within the second all the same."""
    f = rates(1, HOT)
    t = Trace(f, "-i", "60", budget="2")
    time.sleep(2.5)
    woken = wake_ups(t.process.pid, 3)
    check(woken <= 4, f"nothing goes on, and roletrace wakes up {woken:.1f} times a second")
    f.say("go")
    begun = time.monotonic()
    until(
        lambda: any("'traced_hot' exact -> " in line for line in list(t.stderr)),
        5,
        f"traced_hot is not shed; {t.said()}",
    )
    took = time.monotonic() - begun
    check(took < 1, f"{took:.2f} s until traced_hot was shed")
    truth = f.ask("quiesce")["truth"]
    exact_rows_are_exact(t.stop(), truth, "traced_hot")
    f.finish()


def test_budget_canary_never_arms_the_exits_of_a_hot_loop():
    f = rates(2, HOT)
    f.say("go")
    time.sleep(0.3)
    t = Trace(f, budget="2")
    share = probes_share(f, 2)
    truth = f.ask("quiesce")["truth"]
    snapshot = t.stop()
    row = snapshot.row("traced_hot")
    equal(row["coverage"], "entry-only", "coverage of traced_hot")
    equal([row["returned"], row["p50_ns"], row["sum_ns"]], [None] * 3, "durations of traced_hot")
    equal(steps(snapshot, "traced_hot"), [("exact", "off")], "steps of traced_hot")
    equal(row["sampled"]["count"], "lower-bound", "what the count is")
    check(share < 0.05, f"the target spends {share:.1%} of a CPU on probes")
    check(
        row["calls"] <= row["sampled"]["calls_estimated"] <= truth["traced_hot"]["calls"],
        f"the estimate: {row['sampled']}, truth {truth}",
    )
    f.finish()


def test_budget_comes_back_when_calm():
    """And is exact from then on, as before."""
    f = rates(1, HOT)
    t = Trace(f, "-i", "0.2", budget="3")
    f.say("go")
    time.sleep(1.5)
    f.say("spin")
    until(
        lambda: any("'traced_hot' off -> exact" in line for line in list(t.stderr)),
        20,
        f"traced_hot does not come back; {t.said()}",
    )
    time.sleep(0.5)
    seen, made = t.snapshot().row("traced_hot")["calls"], f.ask("stat")["calls"]
    f.say("spin 5000000")  # some hundred a second
    time.sleep(1.5)
    f.say("spin")
    time.sleep(0.2)
    more = f.ask("stat")["calls"] - made
    f.say("quiesce")
    f.line()
    snapshot = t.stop()
    row = snapshot.row("traced_hot")
    equal(row["calls"] - seen, more, "calls once it was exact again")
    check(more > 10, f"only {more} calls")
    equal(row["sampled"]["mode"], "exact", "mode at the end")
    equal(row["coverage"], "sampled", "coverage: not all the time")
    check(
        row["observed_ns"] < snapshot.doc["window"]["duration_ns"] * 0.9,
        f"observed all the time: {row}",
    )
    reasons = [s["reason"] for s in snapshot.doc["overhead"]["shed"] if s["name"] == "traced_hot"]
    equal(reasons[:2], ["over budget", "calm again"], "reasons")
    f.finish()


def test_budget_off_never_sheds():
    f = rates(2, BUSY)
    t = Trace(f, budget="off")
    f.say("go")
    time.sleep(1.5)
    truth = f.ask("quiesce")["truth"]
    snapshot = t.stop()
    snapshot.exact(truth)
    snapshot.nothing_lost()
    equal(snapshot.doc["overhead"]["shed"], [], "shed")
    equal({r["coverage"] for r in snapshot.functions}, {"exact"}, "coverage")
    equal(snapshot.doc["overhead"]["shed_functions"], 0, "functions shed")
    f.finish()


def sampled(*args):
    f = Fixture("variable", 2, 300)
    t = Trace(f, *args, budget="3")  # a part is for the watch of threads
    f.say("go")
    time.sleep(8)
    truth = f.ask("quiesce")["truth"]["traced_work"]
    snapshot = t.stop()
    row = snapshot.row("traced_work")
    how = row["sampled"]
    check(how, f"not sampled: {row}")
    equal((row["coverage"], how["mode"], how["count"]), ("sampled", "sampled", "exact"), "how")
    equal(row["calls"], truth["calls"], "calls, all counted")
    check(how["windows"] >= 8, f"windows: {how['windows']}")
    check(0 < row["returned"] < 0.5 * row["calls"], f"timed {row['returned']} of {row['calls']}")
    for q in ("p50", "p95", "p99"):
        interval = how[f"{q}_interval_ns"]
        check(interval, f"{q}: no interval")
        low, high = interval[0], interval[1] or 1 << 63
        check(
            low * 0.95 <= truth[q] <= high * 1.05,
            f"{q}: {row[q + '_ns']}, between {low} and {high}; truth {truth[q]}",
        )
        check(low <= row[q + "_ns"] <= high, f"{q}: {row[q + '_ns']} outside of {low} to {high}")
    check(how["p50_interval_ns"][1] < 3 * how["p50_interval_ns"][0], f"P50 says nothing: {how}")
    f.finish()
    return snapshot


def test_budget_sampled_durations_lie_within_their_error():
    snapshot = sampled()
    check(snapshot.doc["overhead"]["cpu_ratio"] < 0.03, f"{snapshot.doc['overhead']}")


def test_links_are_replaced_without_losing_an_event():
    """All links anew every few ms under full load: not one event lost or seen twice."""
    for args in ((), ("--exit", "uretprobe")):
        f = rates(2, HOT)
        t = Trace(f, "--rearm-always", "-i", "0.02", *args)
        f.say("go")
        time.sleep(4)
        truth = f.ask("quiesce")["truth"]
        snapshot = t.stop()
        snapshot.exact(truth)
        snapshot.nothing_lost()
        f.finish()


def test_budget_sigkill_at_any_moment_leaves_nothing():
    """While links are replaced and windows are open, too."""
    rng = random.Random(13)
    f = rates(2, HOT)
    f.say("go")
    for i in range(8):
        t = Trace(f, "--rearm-always" if i % 2 else "--raw", budget="2")
        time.sleep(rng.uniform(0, 0.6))
        t.process.kill()
        t.process.wait()
        until(lambda: not f.breakpoints(), 5, "breakpoints are left after SIGKILL")
    f.ask("quiesce")
    f.finish()


def test_budget_many_hot_functions():
    """Two thousand functions too dear together: those that stay exact are, and the rest is cheap."""
    f = Fixture("many", 4)
    f.say("go")
    without = probes_share(f, 1)  # it sleeps a lot: that is system time too
    made = -f.ask("quiesce")["truth"]["traced_a000"]["calls"]
    t = Trace(f, budget="2")
    f.say("go")
    time.sleep(3)
    share = probes_share(f, 2) - without
    made += f.ask("quiesce")["truth"]["traced_a000"]["calls"]
    snapshot = t.stop()
    rows = [r for r in snapshot.functions if r["name"][:8] in ("traced_a", "traced_b")]
    equal(len(rows), 2000, "functions")
    wrong = [r for r in rows if r["coverage"] == "exact" and r["calls"] != made]
    equal(wrong[:2], [], f"exact rows without all {made} calls")
    check(sum(r["sampled"] is not None for r in rows) > 1000, "hardly any was shed")
    check(share < 0.05, f"the target spends {share:.1%} of a CPU on probes")
    f.finish()


def test_attaching_stops_no_thread():
    f = Fixture("gaps")
    time.sleep(0.5)
    f.ask("gap")
    quiet, traced = [], []
    for _ in range(3):
        time.sleep(0.5)
        quiet.append(f.ask("gap")["gap_ns"])
        t = Trace(f, budget="2")
        t.stop()
        traced.append(f.ask("gap")["gap_ns"])
    limit = 20e6
    check(
        max(traced) <= limit,
        f"longest gaps while attaching: {traced} ns, untraced {quiet} ns",
    )
    f.ask("quiesce")
    f.finish()


def test_price_agrees_with_cpu_time():
    """overhead.cpu_ratio is what the target's threads really lose, within a third."""
    f = rates(1, 3000)
    f.say("go")
    time.sleep(0.3)
    bare = f.ask("stat")
    time.sleep(1.5)
    done = f.ask("stat")
    per_call = (done["cpu_ns"] - bare["cpu_ns"]) / (done["calls"] - bare["calls"])
    t = Trace(f, functions=["traced_hot"])
    begun = f.ask("stat")
    time.sleep(2)
    ended = f.ask("stat")
    snapshot = t.stop()
    calls = ended["calls"] - begun["calls"]
    lost_ns = (ended["cpu_ns"] - begun["cpu_ns"]) - calls * per_call
    row = snapshot.row("traced_hot")
    said_ns = row["cost_ns"] / row["calls"]
    check(
        0.6 * lost_ns / calls < said_ns < 1.5 * lost_ns / calls,
        f"a call costs {said_ns:.0f} ns by the prices, {lost_ns / calls:.0f} ns of CPU time",
    )
    f.say("quiesce")
    f.line()
    f.finish()


def lost_per_call(f, begun, ended):
    """What the probes of a call took, ns of CPU, from the two functions' difference."""
    each = {
        part: (ended[part]["cpu_ns"] - begun[part]["cpu_ns"])
        / (ended[part]["calls"] - begun[part]["calls"])
        for part in ("traced", "bare")
    }
    return each["traced"] - each["bare"]


def test_price_in_a_program_that_has_work_to_do():
    """Caches are not the probes' alone there. In turn with an untraced twin; the middle of five."""
    f = Fixture("paired", 300)
    f.say("go")
    ratios, said = [], ""
    for _ in range(5):
        t = Trace(f, functions=["traced_call"])
        begun = f.ask("stat")
        time.sleep(0.7)
        lost_ns = lost_per_call(f, begun, f.ask("stat"))
        snapshot = t.stop()
        row, o = snapshot.row("traced_call"), snapshot.doc["overhead"]
        check(o["ns_per_hit_low"] <= o["ns_per_hit"] <= o["ns_per_hit_high"], f"prices: {o}")
        check(o["ns_per_hit_high"] >= 1.2 * o["ns_per_hit_low"], f"cold is not dearer: {o}")
        ratios.append(row["cost_ns"] / row["calls"] / lost_ns)
        said += f"\n{row['cost_ns'] / row['calls']:.0f} ns said, {lost_ns:.0f} lost; {o}"
    f.ask("quiesce")
    check(0.75 < sorted(ratios)[2] < 1.35, f"prices against CPU time: {ratios}{said}")
    f.finish()


def ping_pong(*args, budget, seconds):
    """(snapshot, trace, what the kernel's statistics say: {program: (runs, ns)})"""
    f = Fixture("pingpong")
    f.say("go")
    statistics = bpf.keep_statistics()
    if statistics is None:
        raise Skip("the kernel does not time programs")
    t = Trace(f, "--no-functions", *args, functions=(), budget=budget)
    time.sleep(seconds)
    times = bpf.run_times(t.process.pid)
    snapshot = t.stop()
    os.close(statistics)
    f.ask("quiesce")
    f.finish()
    return snapshot, t, times


def test_overhead_of_the_watch_agrees_with_the_kernels_statistics():
    snapshot, _, times = ping_pong("--off-cpu", budget="off", seconds=2)
    o, window_ns = snapshot.doc["overhead"], snapshot.doc["window"]["duration_ns"]
    for part, programs in (("threads", ("sched_switch", "sched_waking")), ("profile", ("off_cpu",))):
        kernel_ns = sum(times[p][1] for p in programs)
        ratio = o[f"{part}_ratio"] * window_ns / kernel_ns
        check(0.7 < ratio < 1.3, f"{part}: {ratio:.2f} of the kernel's {times}; {o}")
    sum_of = sum(o[f"{p}_ratio"] for p in ("probes", "threads", "profile", "growth"))
    check(abs(o["cpu_ratio"] - sum_of) < 1e-9, f"no sum of its parts: {o}")
    check(o["cpu_ratio"] < o["process_ratio"] * 2.5, f"of the process's own time: {o}")


def cpu_seconds(pid):
    """CPU time of a process and of its children that have ended, to 10 ms."""
    with open(f"/proc/{pid}/stat") as f:
        return sum(map(int, f.read().rpartition(")")[2].split()[11:15])) / os.sysconf("SC_CLK_TCK")


def test_overhead_says_what_roletrace_itself_uses():
    """Its own account of itself is the kernel's, from the attach on: not the work before it."""
    f = Fixture("traffic", 2, 5)
    t = Trace(f, "-i", 0.05, "--cpu-profile=499")
    before = cpu_seconds(t.process.pid)
    f.say("go")
    time.sleep(3)
    after = cpu_seconds(t.process.pid)
    o = t.stop().doc["overhead"]
    f.ask("quiesce")
    f.finish()
    used, said = after - before, o["tool_cpu_ns"] / 1e9
    check(used > 0.1, f"roletrace had nothing to do: {used} s")
    check(used - 0.03 <= said <= 1.15 * used + 0.15, f"by the kernel {used} s, by itself {said} s")
    check(0.5 < o["tool_cpu_ratio"] / (said / 3) < 1.1, f"of a CPU: {o}")
    report = "\n".join(t.stdout)
    check(" apart, roletrace itself " in report, f"the report: {report}")


def test_budget_drops_wakers_when_the_watch_alone_is_over():
    snapshot, t, _ = ping_pong("--off-cpu", "--wakers", budget="2", seconds=2.5)
    check(any("who ends waits is no longer noted" in line for line in t.stderr), t.said())
    check(any("--no-threads" in line for line in t.stderr), t.said())
    reasons = snapshot.doc["health"]["reasons"]
    check(any("who ends waits was not noted" in r for r in reasons), f"health: {reasons}")
    check(any("what is no probe alone" in r for r in reasons), f"health: {reasons}")


def test_budget_off_drops_nothing_of_the_watch():
    snapshot, t, times = ping_pong("--off-cpu", "--wakers", budget="off", seconds=1.5)
    check(times["waking"][0] > 1000, f"wakers are not noted: {times}")
    equal(snapshot.doc["health"], {"status": "ok", "reasons": []}, "health")
    check(not any("over budget" in line for line in t.stderr), t.said())
