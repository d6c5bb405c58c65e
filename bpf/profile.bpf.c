/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Where the target's threads run (a sample of each CPU at fixed intervals) and where they wait
 * (each time a thread leaves its CPU to block), by user stack. Adapters only: the work is in
 * unwind.bpf.h and kept.bpf.h.
 *
 * The samples come from CPUs, not from threads: events that follow a thread would cost at each of
 * its switches, and those that new threads inherit leave a gap. A sample that hits another process
 * is dropped by a comparison.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "blocked.bpf.h"
#include "kept.bpf.h"
#include "lock_site.bpf.h"
#include "spent.bpf.h"
#include "unwind.bpf.h"
#include "waits.bpf.h"
#include "wakers.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define TASK_DEAD 0x80 /* include/linux/sched.h */
#define FUTEX_SYSCALL 202
#define USER_CS_64 0x33

const volatile rt_u64 off_cpu_min_ns;

/* Written by the daemon. */
volatile rt_u32 target_tgid;
volatile rt_u32 running;  /* 1: count */
volatile rt_u64 start_ns; /* since when */

/* Written by the programs. */
rt_u64 cpu_samples;
rt_u64 cpu_lost;		  /* of them: their stack was not kept */
rt_u64 off_cpu_lost;		  /* waits whose stack was not kept */
rt_u64 off_cpu_waits, off_cpu_ns; /* all, those below the minimum too */
rt_u64 off_cpu_short, off_cpu_short_ns;
rt_u64 no_storage;
rt_u64 futex_waits_lost; /* in no stack of their futex */

/* key: a futex and the stack of who waited there. Written here, read by collect. Bound: set at
 * load. Full: futex_waits_lost. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct rt_lock_wait);
	__type(value, struct rt_waits);
} futex_waits SEC(".maps");

static __always_inline bool is_target(const struct task_struct *t)
{
	return t->tgid == (int)target_tgid && running;
}

static __always_inline void sample(struct bpf_perf_event_data *ctx, struct task_struct *t)
{
	struct unwind *u;
	rt_u32 place;

	__sync_fetch_and_add(&cpu_samples, 1);
	u = unwind_begin(RT_UNWIND_CPU);
	if (!u) {
		__sync_fetch_and_add(&cpu_lost, 1);
		return;
	}
	keep_name(u, t);
	if ((ctx->regs.cs & 3) == 3) {
		UNWIND_SET_REGS(u, &ctx->regs);
		asm volatile(""); /* or both ways end in one load, and the verifier knows no such
				     pointer */
	} else {
		begin_in_kernel(u, (struct pt_regs *)bpf_task_pt_regs(t));
	}
	unwind_user(u, t);
	place = keep_stack(u, RT_STACK_CPU);
	unwind_end(u);
	if (place)
		count_stack(place, 1, 0);
	else
		__sync_fetch_and_add(&cpu_lost, 1);
}

SEC("perf_event")
int cpu_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct spending cost;

	if (!is_target(t) || !t->mm)
		return 0;
	spending_begins(RT_SPENT_SAMPLE, &cost);
	sample(ctx, t);
	spending_ends(&cost);
	return 0;
}

/* Or the lock that it belongs to. */
static __always_inline rt_u64 futex_of(const struct pt_regs *regs)
{
	rt_u64 lock;

	if (regs->orig_ax != FUTEX_SYSCALL || regs->cs != USER_CS_64)
		return 0;
	(void)lock_waited_for(regs, &lock);
	return lock ?: regs->di;
}

static __always_inline void count_at_futex(const struct rt_blocked *b, rt_u32 place, rt_u64 ns)
{
	struct rt_lock_wait key = { .futex = b->futex, .place = place };

	if (key.futex && place && !count_waits(&futex_waits, &key, ns))
		__sync_fetch_and_add(&futex_waits_lost, 1);
}

/* The current thread stops here to wait. */
static __always_inline void begin_wait(struct task_struct *t, rt_u64 now)
{
	struct rt_blocked *b;
	struct unwind *u;

	b = bpf_task_storage_get(&blocked, t, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!b) {
		__sync_fetch_and_add(&no_storage, 1);
		return;
	}
	b->place = 0;
	forget_waker(b);
	b->futex = futex_of((struct pt_regs *)bpf_task_pt_regs(t));
	b->since_ns = now;
	u = unwind_begin(RT_UNWIND_OFF_CPU);
	if (!u)
		return;
	keep_name(u, t);
	begin_in_kernel(u, (struct pt_regs *)bpf_task_pt_regs(t));
	unwind_user(u, t);
	b->place = keep_stack(u, RT_STACK_OFF_CPU);
	unwind_end(u);
}

/* Of a wait from before the gate opened the stack was taken from outside. */
static __always_inline rt_u32 place_of(const struct rt_blocked *b)
{
	return b->since_ns == start_ns ? b->older_place : b->place;
}

static __always_inline void end_wait(struct task_struct *t, rt_u64 now)
{
	struct rt_blocked *b = bpf_task_storage_get(&blocked, t, 0, 0);
	rt_u32 place;
	bool older;
	rt_u64 ns;

	if (!b || !b->since_ns)
		return;
	ns = now - b->since_ns;
	place = place_of(b);
	older = b->since_ns == start_ns;
	b->since_ns = 0;
	__sync_fetch_and_add(&off_cpu_waits, 1);
	__sync_fetch_and_add(&off_cpu_ns, ns);
	if (ns >= off_cpu_min_ns) {
		if (place)
			count_stack(place, 1, ns);
		else
			__sync_fetch_and_add(&off_cpu_lost, 1);
		count_wake(b, place, ns);
		if (!older)
			count_at_futex(b, place, ns);
	} else {
		__sync_fetch_and_add(&off_cpu_short, 1);
		__sync_fetch_and_add(&off_cpu_short_ns, ns);
	}
}

SEC("tp_btf/sched_switch")
int BPF_PROG(off_cpu, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct spending cost;

	if (!is_target(prev) && !is_target(next))
		return 0;
	spending_begins(RT_SPENT_OFF_CPU, &cost);
	if (is_target(prev) && !preempt && prev->__state && !(prev->__state & TASK_DEAD))
		begin_wait(prev, bpf_ktime_get_ns());
	if (is_target(next))
		end_wait(next, bpf_ktime_get_ns());
	spending_ends(&cost);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(waking, struct task_struct *t)
{
	struct spending cost;
	struct rt_blocked *b;

	if (!is_target(t))
		return 0;
	spending_begins(RT_SPENT_WAKER, &cost);
	b = bpf_task_storage_get(&blocked, t, 0, 0);
	if (b && b->since_ns)
		note_waker(b, ctx, target_tgid);
	spending_ends(&cost);
	return 0;
}

/* Another program: its addresses mean other things. */
SEC("tp_btf/sched_process_exec")
int profile_exec(void *ctx)
{
	if (bpf_get_current_task_btf()->tgid == (int)target_tgid)
		running = 0;
	return 0;
}

/* Hands out the waits that go on now. */
SEC("iter/task")
int blocked_now(struct bpf_iter__task *ctx)
{
	struct task_struct *t = ctx->task;
	struct rt_blocked *b, copy;

	if (!t || t->tgid != (int)target_tgid)
		return 0;
	b = bpf_task_storage_get(&blocked, t, 0, 0);
	if (!b)
		return 0;
	copy = *b;
	copy.place = place_of(b);
	if (copy.since_ns)
		bpf_seq_write(ctx->meta->seq, &copy, sizeof(copy));
	return 0;
}
