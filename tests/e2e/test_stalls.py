# SPDX-License-Identifier: BSD-2-Clause
"""Locks, deadlocks and stalls: what hangs is told while it does, what only sleeps is not."""

import os
import subprocess
import time

import harness
from harness import Fixture, Skip, Trace, at_end, check, close, equal, until, scratch
from profiles import gdb_stacks, same_stack


def rust(*args):
    return Fixture("stalls", *args, exe=os.path.join(harness.CARGO_BIN, "stalls"))


def tids(stall):
    return [t["tid"] for t in stall["threads"]]


def hang(fixture, *args, functions=(), seconds=8):
    """Lets it hang under trace: (truth, seconds until the terminal told, trace)."""
    if not functions:
        args = ("--no-functions", *args)
    t = Trace(fixture, *args, functions=functions)
    start = time.monotonic()
    truth = fixture.go()
    told = len(t.stderr)
    until(lambda: any(" waited" in line or " in a poll" in line for line in t.stderr[told:]),
          seconds, f"told; {t.said()}")
    return truth, time.monotonic() - start, t


def one_stall(snapshot):
    equal(len(snapshot.doc["stalls"]), 1, f"stalls: {snapshot.doc['stalls']}")
    return snapshot.doc["stalls"][0]


def proven(how, held_by, kind="pthread_mutex", state="lock"):
    f = Fixture("hangs", how)
    truth, took, t = hang(f)
    check(took < 5, f"told after {took:.1f} s")
    # the file tells it while it hangs
    until(lambda: os.path.exists(t.file), 5, "a file")
    until(lambda: t.snapshot().doc["stalls"], 5, "the stall in the file")
    equal(t.process.poll(), None, "roletrace goes on")
    snapshot = t.stop()
    stall = one_stall(snapshot)
    again = harness.roletrace("report", t.file).stdout.splitlines()
    equal(again, t.stdout, "the report of the file")
    equal((stall["kind"], stall["certainty"]), ("deadlock", "proven"), "what it is")
    equal(sorted(tids(stall)), sorted(truth), "threads of the cycle")
    for thread in stall["threads"]:
        wanted = truth[held_by(truth.index(thread["tid"]), len(truth))]
        equal((thread["lock"], thread["holder_tid"]), (kind, wanted), "its holder")
        equal(thread["state"], state, "state")
        check(thread["wchan"], "where in the kernel")
    equal(stall["over_unix_ns"], None, "still hangs")
    said = sum("deadlock (proven)" in line for line in t.stderr)
    equal(said, 1, f"times it was told; {t.said()}")
    check(any("deadlock (proven)" in line for line in t.stdout), "in the report")
    f.finish()


def names(thread):
    return [f["name"] for f in thread["stack"]]


def test_stall_stacks_agree_with_gdb():
    """Every thread that hangs has the stack that gdb sees, from its start to the system call."""
    f = Fixture("hangs", "three")
    truth, _, t = hang(f)
    stall = one_stall(t.stop())
    body = """
for thread in gdb.selected_inferior().threads():
    thread.switch()
    note()
"""
    theirs = gdb_stacks(f.pid, body)
    for thread in stall["threads"]:
        equal(thread["stack_truncated"], None, "why it ends")
        ours = names(thread)
        equal(ours[-1], "[kernel: futex]", "the innermost")
        check(any(same_stack(ours[:-1], g) for g in theirs), f"{ours} is none of gdb's: {theirs}")
        equal([n for n in ours if n in ("hang", "traced_second")], ["hang", "traced_second"], "own")
    equal(len(stall["threads"]), len(truth), "threads")
    f.finish()


def test_stall_stack_of_a_holder_that_runs():
    """A thread that spins with the lock has no stack that stands still: none is made up."""
    f = Fixture("hangs", "spins")
    truth, _, t = hang(f)
    stall = one_stall(t.stop())
    seen = {x["tid"]: x for x in stall["threads"]}
    holder = seen.pop(truth[0])
    equal((holder["stack"], holder["stack_truncated"]), (None, "running"), "of the holder")
    for thread in seen.values():
        check("hold" in names(thread), f"of a waiter: {names(thread)}")
    f.finish()


def test_two_workers_of_a_pool():
    """S3: two tasks with std mutexes held across calls: the report names the functions at fault."""
    f = rust("pool")
    truth, took, t = hang(f)
    check(took < 5, f"told after {took:.1f} s")
    stall = one_stall(t.stop())
    equal(sorted(tids(stall)), sorted(truth["tids"]), "threads of it")
    own = {tuple(n for n in names(x) if n.startswith("stalls::") and "closure" not in n)
           for x in stall["threads"]}
    wanted = {("stalls::submit_share", "stalls::update_ledger"),
              ("stalls::settle_payout", "stalls::close_accounts")}
    equal(own, wanted, "who holds, who asks")
    told = [line for line in t.stderr if " at " in line]
    for pair in wanted:
        for name in pair:
            equal(sum(line.endswith(name) for line in told), 1, f"lines with {name} in {told}")
    check(not any("tokio::" in line or "[kernel" in line for line in told), f"folded: {told}")
    f.finish()


def test_pthread_pair():
    proven("pair", lambda i, n: (i + 1) % n)


def test_pthread_ring_of_three():
    proven("three", lambda i, n: (i + 1) % n)


def test_pthread_against_itself():
    proven("self", lambda i, n: i)


def test_pthread_rwlock_pair():
    """It stores its writer."""
    proven("rwlock", lambda i, n: (i + 1) % n, "pthread_rwlock")


def test_pthread_robust_pair():
    """The owner is in the futex itself."""
    proven("robust", lambda i, n: (i + 1) % n, "pi_mutex", "futex")


def test_pthread_deadlock_and_its_victims():
    """Who comes later is added to what is known, and not told again."""
    f = Fixture("hangs", "victims")
    truth, _, t = hang(f)
    time.sleep(3.5)
    stall = one_stall(t.stop())
    names = [x["name"] for x in stall["threads"]]
    equal(sorted(names), ["hangs-0", "hangs-1", "victim", "victim"], "threads of it")
    check(set(truth) <= set(tids(stall)), "the cycle")
    equal(sum("deadlock" in line for line in t.stderr), 1, f"times it was told; {t.said()}")
    f.finish()


def test_pthread_deadlock_from_before():
    """roletrace comes when all is over: the waits are older than the window."""
    f = Fixture("hangs", "pair")
    truth = f.go()
    t = Trace(f, "--no-functions", functions=())
    until(lambda: any("deadlock (proven)" in x for x in t.stderr), 5, f"told; {t.said()}")
    stall = one_stall(t.stop())
    equal(sorted(tids(stall)), sorted(truth), "threads of the cycle")
    f.finish()


def test_pthread_deadlock_names_traced_calls():
    f = Fixture("hangs", "pair")
    _, _, t = hang(f, functions=("traced_*",))
    stall = one_stall(t.stop())
    for thread in stall["threads"]:
        equal([x["name"] for x in thread["frames"]], ["traced_second"], "traced calls it is in")
        check(thread["frames"][0]["age_ns"] > 0.5e9, f"age of the call: {thread['frames']}")
    f.finish()


def test_stall_leaves_out_calls_that_were_left():
    """Their return addresses are still on the stack, and no frame returns there."""
    f = Fixture("hangs", "left")
    _, _, t = hang(f, functions=("traced_*",))
    stall = one_stall(t.stop())
    for thread in stall["threads"]:
        equal([x["name"] for x in thread["frames"]], ["traced_second"], "traced calls it is in")
    f.finish()


def test_slow_holder_is_no_deadlock():
    f = Fixture("hangs", "held")
    truth, _, t = hang(f)
    stall = one_stall(t.stop())
    equal((stall["kind"], stall["certainty"]), ("lock_wait", "suspected"), "what it is")
    equal(sorted(tids(stall)), sorted(truth), "the waiters and the holder")
    for thread in stall["threads"]:
        if thread["tid"] == truth[0]:
            equal(thread["state"], "sleep", "what the holder does")
        else:
            equal(thread["holder_tid"], truth[0], "holder")
    f.finish()


def test_cycle_of_priority_inheriting_mutexes():
    """The kernel refuses the wait that would close the cycle, and the C library then lets that thread
    wait for ever at a word of its own: what is left is one waiter, and a holder that waits as well."""
    f = Fixture("hangs", "pi")
    truth, took, t = hang(f)
    check(took < 5, f"told after {took:.1f} s")
    snapshot = t.stop()
    stall = one_stall(snapshot)
    equal((stall["kind"], stall["certainty"]), ("lock_wait", "suspected"), "what it is")
    equal(sorted(tids(stall)), sorted(truth), "both threads")
    waiter, holder = sorted(stall["threads"], key=lambda x: x["state"] != "lock")
    equal((waiter["lock"], waiter["state"]), ("pi_mutex", "lock"), "the waiter")
    equal((waiter["holder_tid"], waiter["holder_proven"]), (holder["tid"], True), "the holder")
    equal((holder["state"], holder["holder_tid"]), ("futex", None), "what the holder does")
    check(holder["wait_ns"] > 2.9e9, f"for how long: {holder}")
    f.finish()


class SlowDisk:
    """A loop device, and a group of processes that get a few bytes of it per second."""

    def __init__(self, rate=65536):
        self.image = os.path.join(scratch(), "image")
        with open(self.image, "wb") as file:
            file.truncate(8 << 20)
        self.device = self.losetup("--find", "--show", self.image)
        at_end(lambda: self.losetup("--detach", self.device))
        stat = os.stat(self.device)
        self.number = f"{os.major(stat.st_rdev)}:{os.minor(stat.st_rdev)}"
        self.make_group()
        self.limit(rate)

    @staticmethod
    def losetup(*args):
        try:
            done = subprocess.run(["losetup", *args], capture_output=True, text=True)
        except FileNotFoundError:
            raise Skip("no losetup") from None
        if done.returncode:
            raise Skip(f"no loop device: {done.stderr.strip()}")
        return done.stdout.strip()

    def make_group(self):
        v1, v2 = "/sys/fs/cgroup/blkio", "/sys/fs/cgroup/cgroup.subtree_control"
        root = v1 if os.path.isdir(v1) else os.path.dirname(v2)
        self.group = os.path.join(root, f"roletrace-e2e-{os.getpid()}")
        self.file = "blkio.throttle.read_bps_device" if root == v1 else "io.max"
        try:
            if root != v1:
                with open(v2, "w") as file:
                    file.write("+io")
            os.mkdir(self.group)
        except OSError as e:
            raise Skip(f"no group of processes: {e}") from None
        at_end(self.remove_group)
        if not os.path.exists(os.path.join(self.group, self.file)):
            raise Skip("disks cannot be slowed down here")

    def remove_group(self):
        until(lambda: not self.processes(), 10, "an empty group")
        os.rmdir(self.group)

    def processes(self):
        with open(os.path.join(self.group, "cgroup.procs")) as file:
            return file.read().split()

    def limit(self, rate):
        unlimited, words = ("0", "") if "throttle" in self.file else ("max", "rbps=")
        with open(os.path.join(self.group, self.file), "w") as file:
            file.write(f"{self.number} {words}{rate or unlimited}")

    def take(self, pid):
        with open(os.path.join(self.group, "cgroup.procs"), "w") as file:
            file.write(str(pid))


def test_disk_that_does_not_answer():
    disk = SlowDisk()
    f = Fixture("disk", disk.device)
    disk.take(f.pid)
    truth, took, t = hang(f, "-i", "0.5")
    check(took < 5, f"told after {took:.1f} s")
    until(lambda: os.path.exists(t.file) and t.snapshot().doc["stalls"], 5, "the stall in the file")
    now = one_stall(t.snapshot())
    equal((now["kind"], now["certainty"], now["over_unix_ns"]), ("disk", "proven", None), "what it is")
    disk.limit(None)
    # what was handed to the device at the old rate still comes at that rate
    equal(f.line(60), f"read {1 << 20}", "what the thread did then")
    until(lambda: t.snapshot().doc["stalls"][0]["over_unix_ns"], 15, "the end of it in the file")
    snapshot = t.stop()
    stall = one_stall(snapshot)
    equal([(x["tid"], x["name"], x["state"]) for x in stall["threads"]], [(truth["tid"], "reader", "io")], "who")
    check(any("1 thread has waited" in x and "for a disk" in x for x in t.stderr), t.said())
    dead = next(x for x in snapshot.doc["threads"] if x["name"] == "reader" and not x["tid"])
    check(dead["off_cpu_ns"]["io"] > 2.9e9, f"time at the disk: {dead['off_cpu_ns']}")
    f.finish()


def suspected(what, kind):
    f = rust(what)
    truth, took, t = hang(f)
    check(took < 5, f"told after {took:.1f} s")
    snapshot = t.stop()
    stall = one_stall(snapshot)
    equal((stall["kind"], stall["certainty"]), ("deadlock", "suspected"), "what it is")
    equal(sorted(tids(stall)), sorted(truth["tids"]), "threads of it")
    equal({x["lock"] for x in stall["threads"]}, {kind}, "kind of the locks")
    # nothing stores who holds them: of two, each may have what the other waits for
    one, other = stall["threads"]
    equal((one["holder_tid"], other["holder_tid"]), (other["tid"], one["tid"]), "candidates")
    equal((one["holder_proven"], other["holder_proven"]), (False, False), "no proof")
    check(any(f"perhaps held by {one['tid']}" in line for line in t.stderr), t.said())
    waiting = [x for x in snapshot.doc["locks"] if x["kind"] == kind and x["waiters_now"]]
    equal(sorted(x["waiters_now"] for x in waiting), [1, 1], "locks with a waiter")
    f.finish()


def test_std_mutex():
    suspected("std", "std_mutex")


def test_std_rwlock():
    suspected("rwlock", "std_rwlock")


def test_parking_lot():
    suspected("parking_lot", "parking_lot")


def test_parking_lot_rwlock():
    suspected("pl_rwlock", "parking_lot")


def nothing_hangs(fixture, *args):
    t = Trace(fixture, "--no-functions", *args, functions=())
    fixture.go()
    time.sleep(4.5)
    snapshot = t.stop()
    equal(snapshot.doc["stalls"], [], "stalls of a program that waits for work")
    fixture.finish()
    return snapshot


def test_idle_threads_are_no_suspects():
    snapshot = nothing_hangs(rust("idle"))
    kinds = {x["kind"] for x in snapshot.doc["locks"] if x["waiters_now"]}
    check({"park", "futex", "join"} <= kinds, f"what they wait at: {kinds}")
    check(not kinds & {"std_mutex", "pthread_mutex", "parking_lot"}, f"what they wait at: {kinds}")
    for t in snapshot.doc["threads"]:
        # malloc has locks too, for some microseconds
        check(t["off_cpu_ns"]["lock"] < 1e6, f"{t['name']} at a lock: {t['off_cpu_ns']}")
        check(t["state"] != "lock", f"{t['name']} at a lock")


def test_idle_threads_from_before():
    """The programs have not seen them go to sleep."""
    f = rust("idle")
    f.go()
    t = Trace(f, "--no-functions", functions=())
    time.sleep(4.5)
    snapshot = t.stop()
    equal(snapshot.doc["stalls"], [], "stalls of a program that waits for work")
    for thread in snapshot.doc["threads"]:
        equal(thread["off_cpu_ns"]["lock"], 0, f"{thread['name']} at a lock")
    f.finish()


def test_std_mutex_from_before():
    f = rust("std")
    truth = f.go()
    t = Trace(f, "--no-functions", functions=())
    until(lambda: any("suspected deadlock" in x for x in t.stderr), 6, f"told; {t.said()}")
    snapshot = t.stop()
    stall = one_stall(snapshot)
    equal(sorted(tids(stall)), sorted(truth["tids"]), "threads of it")
    equal({x["lock"] for x in stall["threads"]}, {"std_mutex"}, "kind of the locks")
    equal({x["state"] for x in stall["threads"]}, {"lock"}, "states")
    for thread in snapshot.doc["threads"]:
        if thread["tid"] in truth["tids"]:
            check(thread["state_older"], "older than the window")
    f.finish()


def test_idle_workers_are_no_suspects():
    snapshot = nothing_hangs(rust("workers"))
    workers = [x for x in snapshot.doc["threads"] if x["runtime"] == "tokio"]
    equal(len(workers), 4, "workers")
    for w in workers:
        check(w["parked_ratio"] > 0.95, f"parked: {w['parked_ratio']}")


def test_fought_lock_is_no_stall():
    snapshot = nothing_hangs(rust("fought"))
    lock = max(snapshot.doc["locks"], key=lambda x: x["waits"])
    equal(lock["kind"], "std_mutex", "kind")
    # one of four holds it for 20 ms, the others wait
    check(50e6 < lock["wait"]["mean_ns"] < 75e6, f"mean wait: {lock['wait']['mean_ns']}")
    check(lock["waits"] > 150, f"waits: {lock['waits']}")
    check(any("std_mutex" in str(x) for x in snapshot.doc["locks"]), "locks")


def test_where_a_lock_is_fought_for():
    """With --off-cpu: the waits at a lock by where in the code they were, all of them."""
    f = rust("fought")
    t = Trace(f, "--no-functions", "--off-cpu", functions=())
    f.go()
    time.sleep(2)
    snapshot = t.stop()
    lock = max(snapshot.doc["locks"], key=lambda x: x["waits"])
    ended = [s for s in lock["stacks"] if s["waits"]]
    where = {own_name(s): s for s in ended}
    equal(set(where), {"stalls::takes_often", "stalls::takes_too"}, "where")
    equal(sum(s["waits"] for s in ended), lock["waits"], "waits")
    # of which waiting for a CPU, once woken, is a part
    close(sum(s["total_ns"] for s in ended), lock["wait"]["total_ns"], 0.05, "their time")
    # three of the four threads are there
    share = where["stalls::takes_often"]["total_ns"] / lock["wait"]["total_ns"]
    check(0.6 < share < 0.9, f"share of the three: {share:.2f}")
    now = [s for s in lock["stacks"] if s["waiters_now"]]
    # one that is let in meanwhile has no stack
    check(0 < sum(s["waiters_now"] for s in now) <= lock["waiters_now"], f"waiting now: {now}")
    check(any("in stalls::takes_often" in line for line in t.stdout), "in the report")
    equal(harness.roletrace("report", t.file).stdout.splitlines(), t.stdout, "of the file")
    f.finish()


def test_parking_lot_is_fought_for():
    """Its waits are a lock's, at the lock's address, though each thread sleeps at its own word."""
    f = rust("pl_fought")
    f.run_undisturbed()
    t = Trace(f, "--no-functions", "--off-cpu", functions=())
    f.go()
    time.sleep(4)
    snapshot = t.stop()
    equal(snapshot.doc["stalls"], [], "stalls: it goes round")
    locks = [x for x in snapshot.doc["locks"] if x["kind"] == "parking_lot"]
    equal(len(locks), 1, f"locks: {snapshot.doc['locks']}")
    lock, fighters = locks[0], [x for x in snapshot.doc["threads"] if x["name"] == "fights"]
    waited = sum(x["off_cpu_ns"]["lock"] for x in fighters)
    parked = sum(x["off_cpu_ns"]["futex"] for x in fighters)
    check(waited > 50 * parked, f"at locks {waited}, at futexes {parked}")
    # three of four wait at any time
    window_ns = snapshot.doc["window"]["duration_ns"]
    check(2.5 < waited / window_ns < 3.1, f"threads that wait: {waited / window_ns:.2f}")
    close(lock["wait"]["total_ns"] + lock["waiters_now"] * lock["oldest_wait_ns"], waited, 0.1,
          "the same by lock")
    ended = [s for s in lock["stacks"] if s["waits"]]
    equal({own_name(s) for s in ended}, {"stalls::takes_parked"}, "where")
    close(sum(s["waits"] for s in ended), lock["waits"], 0.02, "waits")
    f.finish()


def own_name(s):
    return [f["name"] for f in s["stack"] if f["kind"] == "own"][-1]


def fought_rwlock(fixture, kind):
    """All waits for it are in its row, whoever waits where for what in it, and none in another."""
    t = Trace(fixture, "--no-functions", "--off-cpu", functions=())
    truth = fixture.go()
    snapshot = t.stop()
    fixture.finish()
    locks = [x for x in snapshot.doc["locks"] if "rwlock" in x["kind"]]
    equal([(x["kind"], int(x["address"], 16)) for x in locks], [(kind, truth["address"])], "locks")
    # less the time from being woken to running
    close(locks[0]["wait"]["total_ns"], truth["waited_ns"], 0.15, "waits")
    waited = sum(x["off_cpu_ns"]["lock"] for x in snapshot.doc["threads"])
    close(waited, truth["waited_ns"], 0.15, "by thread")
    close(sum(s["waits"] for s in locks[0]["stacks"]), locks[0]["waits"], 0.1, "in the code")
    check(any(line.startswith(locks[0]["address"]) and kind in line for line in t.stdout), "a row")


def test_std_rwlock_is_fought_for():
    fought_rwlock(rust("rw_fought"), "std_rwlock")


def test_pthread_rwlock_is_fought_for():
    """Next to barriers, condition variables and semaphores, whose waits the same code makes."""
    fought_rwlock(Fixture("rwlocks"), "pthread_rwlock")


def test_pthread_rwlock_of_writers_is_fought_for():
    fought_rwlock(Fixture("rwlocks", "writers"), "pthread_rwlock")


def test_reader_behind_a_writer():
    """It waits with all bits set, as parked threads do; the stall and the table say the same."""
    f = rust("rw_read")
    truth, _, t = hang(f)
    time.sleep(1)
    snapshot = t.stop()
    stall = one_stall(snapshot)
    seen = {(x["name"], x["lock"], int(x["address"], 16)) for x in stall["threads"]}
    equal(seen, {(n, "std_rwlock", truth["address"]) for n in ("writes", "reads")}, "who waits")
    locks = [x for x in snapshot.doc["locks"] if int(x["address"], 16) == truth["address"]]
    equal([(x["kind"], x["waiters_now"]) for x in locks], [("std_rwlock", 2)], "in the table")
    row = next(line for line in t.stdout if line.startswith(locks[0]["address"])).split()
    equal(row[1:7], ["std_rwlock", "0", "-", "-", "-", "2"], "its row")
    check(row[7].endswith("s") and float(row[7].rstrip("s")) > 3, f"how long: {row}")
    f.finish()


def test_end_of_a_stall_is_told():
    f = rust("slow")
    start = time.monotonic()
    _, _, t = hang(f)
    until(lambda: any("over after" in x for x in t.stderr), 8, f"its end; {t.said()}")
    took = time.monotonic() - start
    stall = one_stall(t.stop())
    check(stall["over_unix_ns"], "over")
    said = [x for x in t.stderr if "over after" in x]
    equal(len(said), 1, f"lines: {said}")
    after = float(said[0].partition("over after ")[2].partition("s:")[0])
    check(4.5 < after < took and "the wait for a lock of" in said[0], f"{said}, {took:.1f} s")
    check(any("that nobody has freed" in x for x in t.stderr), t.said())
    f.finish()


def blocked_from_before(how, state, function):
    f = rust("poll", how)
    f.go()
    t = Trace(f, "--no-functions", functions=())
    until(lambda: any("in a poll that does not return" in x for x in t.stderr), 8, f"told; {t.said()}")
    time.sleep(1)
    snapshot = t.stop()
    stall = one_stall(snapshot)
    equal((stall["kind"], stall["certainty"]), ("blocked_poll", "proven"), "what it is")
    thread = stall["threads"][0]
    equal((thread["name"], thread["state"]), ("tokio-rt-worker", state), "who")
    check(thread["wait_older"], "it is older than the window")
    check(any("at least" in x for x in t.stderr), t.said())
    check(any(function in n for n in names(thread)), f"where: {names(thread)}")
    tokio = [i for i, x in enumerate(t.stdout) if x.startswith("Tokio, ")]
    check("blocked inside polls" in t.stdout[tokio[0] + 1], f"in the report: {t.stdout}")
    f.finish()


def test_worker_blocked_from_before():
    """Nothing but its stack says so; other threads of the runtime that sleep may."""
    blocked_from_before("sleep", "sleep", "blocked_poll")


def test_worker_parked_in_a_poll_from_before():
    blocked_from_before("channel", "futex", "blocked_poll")


def test_worker_that_spins_in_a_poll():
    f = rust("poll", "spin")
    _, _, t = hang(f, functions=("stalls::*",))
    stall = one_stall(t.stop())
    equal((stall["kind"], stall["certainty"]), ("blocked_poll", "proven"), "what it is")
    check(stall["threads"][0]["state"] in ("running", "runnable", "preempted"), "it does not wait")
    check(any("1 thread has been running" in x for x in t.stderr), t.said())
    check(not any("preempted" in x for x in t.stderr), t.said())
    f.finish()


def test_worker_blocked_inside_a_traced_poll():
    f = rust("poll")
    _, _, t = hang(f, functions=("stalls::*",))
    stall = one_stall(t.stop())
    equal((stall["kind"], stall["certainty"]), ("blocked_poll", "proven"), "what it is")
    thread = stall["threads"][0]
    equal((thread["name"], thread["state"]), ("tokio-rt-worker", "sleep"), "who")
    check("{{closure}}" in thread["frames"][-1]["name"] or "closure" in thread["frames"][-1]["name"],
          f"the poll: {thread['frames']}")
    check(thread["frames"][-1]["age_ns"] >= 2.9e9, f"its age: {thread['frames']}")
    f.finish()


def test_poll_that_was_left_blocks_nobody():
    """Its return address is still on the stack, and no frame returns there."""
    f = rust("left")
    t = Trace(f, functions=("stalls::left::traced_left*",))
    f.go()
    time.sleep(4.5)
    snapshot = t.stop()
    equal([(x["kind"], x["certainty"]) for x in snapshot.doc["stalls"]], [], "stalls")
    (poll,) = [r for r in snapshot.functions if r["kind"] == "async"]
    equal([poll[k] for k in ("calls", "returned", "unwound", "in_flight")], [1, 0, 1, 0], "the poll")
    f.finish()


def test_deadlock_of_all_workers_of_a_role():
    """S3: which calls hold what, for how long, and that no worker is left."""
    f = rust("locked")
    _, took, t = hang(f, functions=("stalls::locked::*",))
    check(took < 5, f"told after {took:.1f} s")
    snapshot = t.stop()
    stall = next(s for s in snapshot.doc["stalls"] if s["kind"] == "deadlock")
    equal((stall["certainty"], len(stall["threads"])), ("suspected", 2), "std's locks name no holder")
    equal({x["name"] for x in stall["threads"]}, {"tokio-rt-worker"}, "who")
    equal({x["lock"] for x in stall["threads"]}, {"std_mutex"}, "where")
    calls = {x["frames"][-1]["name"].rpartition("::")[2]: x["frames"][-1]["age_ns"] for x in stall["threads"]}
    equal(set(calls), {"traced_route", "traced_submit"}, "calls that hold one lock and want the other")
    check(min(calls.values()) > 3e9, f"age of the calls: {calls}")
    equal({snapshot.row(f"stalls::locked::{n}")["in_flight"] for n in calls}, {1}, "in flight")
    workers = [x for x in snapshot.doc["threads"] if x["runtime"] == "tokio"]
    equal([x["state"] for x in workers], ["lock", "lock"], "all workers")
    f.finish()


def test_crowd_that_starves_requests():
    """S6: nothing hangs, but polls are long and no worker is ever idle: the cause shows in both."""
    f = rust("crowded", 30)
    t = Trace(f, functions=("stalls::crowded::traced_*",))
    truth = f.go()
    snapshot = t.stop()
    f.finish()
    equal(snapshot.doc["stalls"], [], "nothing hangs")
    check(truth["longest_ns"] > 50e6, f"requests waited: {truth}")
    row = snapshot.row("stalls::crowded::traced_serialize")
    equal(row["calls"], truth["polls"], "calls")
    close(row["sum_ns"], truth["poll_ns"], 0.02, "their time")
    polls = next(r for r in snapshot.rows("traced_miner") if r["kind"] == "async")
    check(polls["calls"] >= truth["polls"], f"polls: {polls['calls']}")
    check(polls["p50_ns"] > 9e6, f"long polls: {polls['p50_ns']}")
    for w in snapshot.doc["threads"]:
        if w["runtime"] == "tokio":
            awake = w["observed_ns"] * (1 - w["parked_ratio"])
            check(awake > 0.9 * truth["busy_ns"], f"a worker that was idle: {w}, {truth}")


def test_no_progress():
    f = Fixture("states")
    t = Trace(f, "--no-functions", "--stall", "1", functions=())
    until(lambda: any("no progress" in x for x in t.stderr), 5, f"told; {t.said()}")
    stall = one_stall(t.stop())
    equal(stall["kind"], "no_progress", "what it is")
    equal(len(stall["threads"]), 11, "threads that are told of")
    f.finish()


def test_over():
    """A lock that is given up after a while: told, and that it is over."""
    f = Fixture("gives_up")
    _, _, t = hang(f)
    f.ask("release")
    time.sleep(1)
    stall = one_stall(t.stop())
    check(stall["over_unix_ns"], f"over: {stall}")
    f.finish()
