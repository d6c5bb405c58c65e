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

#include "kept.bpf.h"
#include "unwind.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define TASK_DEAD 0x80 /* include/linux/sched.h */
#define INT3 0xcc

const volatile rt_u64 off_cpu_min_ns;

/* Written by the daemon. */
volatile rt_u32 target_tgid;
volatile rt_u32 running; /* 1: count */

/* Written by the programs. */
rt_u64 cpu_samples;
rt_u64 cpu_lost;		  /* of them: their stack was not kept */
rt_u64 off_cpu_lost;		  /* waits whose stack was not kept */
rt_u64 off_cpu_waits, off_cpu_ns; /* all, those below the minimum too */
rt_u64 off_cpu_short, off_cpu_short_ns;
rt_u64 no_storage;

/* key: thread. value: its wait. Written by switches, read by blocked_now. Bound: one per thread of
 * the target, freed with it. No memory: no_storage. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rt_blocked);
} blocked SEC(".maps");

static __always_inline bool is_target(const struct task_struct *t)
{
	return t->tgid == (int)target_tgid && running;
}

/*
 * Behind a breakpoint the instruction pointer is one byte too far, inside an instruction that has
 * not run: the rows are those of the breakpoint's own address, if it is code at all (padding
 * between functions looks the same, and has no rows). 1: it is at or behind a breakpoint.
 */
__noinline int leave_breakpoint(struct unwind *u)
{
	rt_u8 code[2];
	rt_u64 pc;

	if (!u)
		return 0;
	pc = u->pc - 1;
	if (bpf_probe_read_user(code, sizeof(code), (void *)pc))
		return 0;
	if (code[0] == INT3 && find_map(&u->map, pc) &&
	    find_rule(u->map.object, u->map.vaddr + (pc - u->map.start))) {
		u->pc = pc;
		return 1;
	}
	return code[1] == INT3;
}

/* A thread that is in the kernel: what it asked for is its innermost frame. */
static __always_inline void begin_in_kernel(struct unwind *u, const struct pt_regs *regs)
{
	rt_s64 call = (rt_s64)regs->orig_ax;
	rt_u64 what = call >= 0 ? (rt_u64)call + 1 : 0;

	UNWIND_SET_REGS(u, regs);
	if (call < 0 && leave_breakpoint(u))
		what = RT_KERNEL_BREAKPOINT;
	keep_frame(u, RT_FRAME_PC(RT_OBJECT_KERNEL, what));
}

SEC("perf_event")
int cpu_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct unwind *u;
	rt_u32 place;

	if (!is_target(t) || !t->mm)
		return 0;
	__sync_fetch_and_add(&cpu_samples, 1);
	u = unwind_begin(RT_UNWIND_CPU);
	if (!u) {
		__sync_fetch_and_add(&cpu_lost, 1);
		return 0;
	}
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
	return 0;
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
	b->since_ns = now;
	u = unwind_begin(RT_UNWIND_OFF_CPU);
	if (!u)
		return;
	begin_in_kernel(u, (struct pt_regs *)bpf_task_pt_regs(t));
	unwind_user(u, t);
	b->place = keep_stack(u, RT_STACK_OFF_CPU);
	unwind_end(u);
}

static __always_inline void end_wait(struct task_struct *t, rt_u64 now)
{
	struct rt_blocked *b = bpf_task_storage_get(&blocked, t, 0, 0);
	rt_u64 ns;

	if (!b || !b->since_ns)
		return;
	ns = now - b->since_ns;
	b->since_ns = 0;
	__sync_fetch_and_add(&off_cpu_waits, 1);
	__sync_fetch_and_add(&off_cpu_ns, ns);
	if (ns >= off_cpu_min_ns) {
		if (b->place)
			count_stack(b->place, 1, ns);
		else
			__sync_fetch_and_add(&off_cpu_lost, 1);
	} else {
		__sync_fetch_and_add(&off_cpu_short, 1);
		__sync_fetch_and_add(&off_cpu_short_ns, ns);
	}
}

SEC("tp_btf/sched_switch")
int BPF_PROG(off_cpu, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (is_target(prev) && !preempt && prev->__state && !(prev->__state & TASK_DEAD))
		begin_wait(prev, bpf_ktime_get_ns());
	if (is_target(next))
		end_wait(next, bpf_ktime_get_ns());
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
	if (copy.since_ns)
		bpf_seq_write(ctx->meta->seq, &copy, sizeof(copy));
	return 0;
}
