# SPDX-License-Identifier: BSD-2-Clause
"""What the budget left unmeasured is estimated: near the truth, with an error that holds it, marked."""

import random
import signal
import time

from harness import Fixture, Trace, check, equal, roletrace, until
from test_terminal import FRAME_END, Terminal


def report_line(file, name, *args):
    """The row of the table, not what is said of it elsewhere."""
    text = roletrace("report", file, *args).stdout
    lines = [x for x in text.split("\n") if x.startswith(name + " ")]
    check(lines, f"no row of {name} in: {text}")
    return lines[0], text


def test_estimated_total_is_of_the_whole_window():
    """Idle while it is exact, then a load that is sampled, then idle again: the sum of all calls."""
    f = Fixture("variable", 2, 300)
    t = Trace(f, "--no-threads", budget="2")  # all of it for the probes: entries are counted
    time.sleep(2)
    f.say("go")
    time.sleep(8)
    truth = f.ask("quiesce")["truth"]["traced_work"]
    time.sleep(1)
    snapshot = t.stop()
    row = snapshot.row("traced_work")
    how = row["sampled"]
    check(how and how["windows"] >= 5, f"not sampled: {how}")
    equal(row["calls"], truth["calls"], "calls, all counted")
    # what was measured has each call's floor in it
    total = truth["sum_ns"] + row["floor_ns"] * truth["calls"]
    for what in ("sum", "total", "self"):
        low, high = how[f"{what}_interval_ns"]
        check(high, f"{what}: no upper end: {how}")
        check(
            low * 0.97 <= total and truth["sum_ns"] <= high * 1.03,
            f"{what}: {low} to {high}, truth {truth['sum_ns']} and the floor {total}",
        )
    check(
        0.6 * truth["sum_ns"] < how["total_ns_estimated"] < 1.6 * total,
        f"total {how['total_ns_estimated']}, truth {truth['sum_ns']}, floor {total}",
    )
    check(row["total_ns"] < 0.7 * how["total_ns_estimated"], f"all was timed: {row}")
    share = how["total_ns_estimated"] / snapshot.doc["window"]["duration_ns"]
    check(abs(row["share"] - share) < 0.01 * share, f"share {row['share']}, of the window {share}")
    mean = how["mean_ns_estimated"] * truth["calls"]
    check(0.6 * truth["sum_ns"] < mean < 1.6 * total, f"mean {how['mean_ns_estimated']}: {mean}")
    line, text = report_line(t.file, "traced_work")
    check("~" in line, f"no estimate in: {line}")
    check("  total: about " in text and ", within " in text, f"no error of the total in: {text}")
    f.finish()


def counted(seed):
    """A loop whose rate changes all the time; whether the interval holds the truth."""
    rng = random.Random(seed)
    f = Fixture("rates", 1, 2000)
    t = Trace(f, "-f", "traced_hot", budget="4", functions=[])
    f.say("go")
    end = time.monotonic() + 5
    while time.monotonic() < end:
        f.say(f"spin {rng.choice((1500, 3000, 3000, 20000))}")
        time.sleep(rng.uniform(0.1, 0.4))
    truth = f.ask("quiesce")["truth"]["traced_hot"]["calls"]
    snapshot = t.stop()
    f.finish()
    row = snapshot.row("traced_hot")
    how = row["sampled"]
    check(how and how["count"] != "exact", f"it was always counted: {row}")
    low, high = how["calls_interval"]
    return low <= truth <= (high or 1 << 63), how["calls_estimated"] / truth, how, truth


def test_estimated_calls_hold_the_truth():
    """Of a loop that is hot enough to be off: it traps all the time when it is looked at."""
    trials = [counted(seed) for seed in range(5)]
    said = "\n    ".join(f"{t[3]}: {t[2]}" for t in trials)
    check(sum(t[0] for t in trials) >= 4, f"the truth is not within:\n    {said}")
    ratios = sorted(t[1] for t in trials)
    check(0.4 < ratios[2] < 2.5, f"estimates over truth {ratios}:\n    {said}")


def test_hot_calls_within_hot_calls():
    """The traps of the inner ones slow the outer ones: they are not counted in the same windows."""
    said, ratios = [], []
    for _ in range(3):
        f = Fixture("nest")
        t = Trace(f, budget="2")
        f.say("go")
        time.sleep(6)
        truth = f.ask("quiesce")["truth"]["traced_mid"]["calls"]
        row = t.stop().row("traced_mid")
        f.finish()
        how = row["sampled"]
        check(how and how["count"] != "exact", f"it was always counted: {row}")
        low, high = how["calls_interval"]
        said.append(f"{truth}: {how}")
        ratios.append(how["calls_estimated"] / truth)
        check(low <= truth * 1.02, f"at least {low}, truth {truth}")
    check(0.5 < sorted(ratios)[1] < 2, f"estimates over truth {ratios}:\n    " + "\n    ".join(said))


def test_estimate_of_a_process_that_ended():
    """Its clock has gone with it."""
    f = Fixture("rates", 1, 2000)
    t = Trace(f, "-f", "traced_hot", budget="4", functions=[])
    f.say("go")
    time.sleep(4)
    truth = f.ask("quiesce")["truth"]["traced_hot"]["calls"]
    f.finish()
    t.wait()
    row = t.snapshot().row("traced_hot")
    how = row["sampled"]
    check(how and how["count"] != "exact", f"it was always counted: {row}")
    check(how["calls_interval"][0] <= 1.05 * truth, f"at least {how['calls_interval']}, truth {truth}")
    check(0.1 < how["calls_estimated"] / truth < 4, f"{how['calls_estimated']}, truth {truth}")


def test_what_is_too_hot_is_said_first():
    f = Fixture("rates", 1, 2000)
    t = Trace(f, budget="2")
    f.say("go")
    time.sleep(3)
    f.ask("quiesce")
    t.stop()
    text = roletrace("report", t.file).stdout
    check("Too hot to time within the budget: traced_hot (" in text, f"it says: {text}")
    line, _ = report_line(t.file, "traced_hot", "--sort", "calls")
    check("~" in line or ">" in line, f"its calls are no estimate: {line}")
    f.finish()


def test_what_never_ran_takes_no_step():
    f = Fixture("rates", 1, 0)
    t = Trace(f, budget="2")
    f.say("go")
    time.sleep(1.5)
    f.ask("quiesce")
    snapshot = t.stop()
    stepped = {s["name"] for s in snapshot.doc["overhead"]["shed"]}
    check("traced_hot" in stepped, f"steps of {stepped}")
    check("traced_wrapper" not in stepped, "a function that was never called took a step")
    equal(snapshot.row("traced_wrapper")["coverage"], "exact", "coverage of what was never called")
    f.finish()


def test_live_rates_are_estimates_and_marked():
    f = Fixture("rates", 1, 2000)
    t = Terminal("--pid", f.pid, "-f", "traced_*", "--budget", 2, "-i", "0.5")
    t.read(lambda text: FRAME_END in text)
    f.say("go")

    def row(text):
        rows = [x for x in text.split(b"\r\n") if x.startswith(b"traced_hot ")]
        words = rows[-1].split() if rows else []
        return words if len(words) > 2 and words[2][:1] in b"~>" else None

    t.read(lambda text: row(text), 30)
    words = row(t.text)
    check(b"o" in words[1], f"no mark of what was not counted all the time: {words}")
    t.process.send_signal(signal.SIGINT)
    t.read(lambda text: b"wrote " in text)
    equal(t.process.wait(20), 0, "exit code")
    f.ask("quiesce")
    f.finish()


def test_what_is_mostly_correction_is_at_most():
    f = Fixture("kids")
    f.run_undisturbed()  # else what is left is the time of others
    for _ in range(4):
        t = Trace(f)
        truth = f.go()
        snapshot = t.stop()
        snapshot.exact(truth)
        parent = snapshot.row("traced_parent")
        if 0.3 * parent["corrected_ns"] > parent["sum_ns"]:
            break
    parent, lonely = snapshot.row("traced_parent"), snapshot.row("traced_lonely")
    check(0.3 * parent["corrected_ns"] > parent["sum_ns"], f"the correction is small: {parent}")
    equal(lonely["corrected_ns"], 0, "what was taken off where nothing is called")
    line, text = report_line(t.file, "traced_parent")
    marks, cells = line.split()[1], line.split()[2:]
    check("p" in marks, f"no mark: {line}")
    check(cells[1][0] in "<≈", f"its mean is no bound: {line}")
    check("  p  the probes inside cost more than is left" in text, f"no legend: {text}")
    line, _ = report_line(t.file, "traced_lonely")
    check("<" not in line, f"bounded for no reason: {line}")
    f.finish()
