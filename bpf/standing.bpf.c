/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The stacks of threads that wait now, taken from outside: of those that hang, and at the start of
 * those whose wait began before anybody looked. Costs nothing until it is asked.
 *
 * A thread that is blocked has left its registers on its kernel stack, and its user stack does not
 * change until it runs. That it did not run in between is seen by its state, which is runnable from
 * the moment it is woken, and by the number of times it has blocked: what a thread that moved had
 * for a stack is not told.
 */
#define UNWIND_OTHERS

#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "blocked.bpf.h"
#include "kept.bpf.h"
#include "unwind.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define TASK_DEAD 0x80 /* include/linux/sched.h */

/* Written by the daemon. */
volatile rt_u32 target_tgid;
volatile rt_u64 since_ns; /* when the gate opened */

/* Written by the programs. */
rt_u64 older_waits;

/*
 * The steps of the stack that is unwound, by frame: the daemon runs one of these programs at a
 * time. That of the innermost frame, the kernel, is never written and stays 0.
 */
rt_u64 steps[RT_UNWIND_FRAMES];
rt_u32 guessed_before;

static void note_step(struct unwind *u, bool last)
{
	rt_u32 frame = (u->depth - 1) & (RT_UNWIND_FRAMES - 1);
	rt_u64 how = u->caller ? 0 : RT_STEP_SIGNAL;

	if (u->guessed != guessed_before)
		how = RT_STEP_GUESSED;
	guessed_before = u->guessed;
	steps[frame] = last ? 0 : RT_STEP_SP(u->reg[DWARF_RSP]) | how;
}

static __always_inline bool stands(const struct task_struct *t)
{
	rt_u32 state = *(const volatile rt_u32 *)&t->__state;

	return state && !(state & TASK_DEAD) && !*(const volatile int *)&t->on_cpu;
}

/* Whether the thread has stood still from when it had blocked that often. */
static __always_inline bool has_stood(const struct task_struct *t, rt_u64 blocked_cnt)
{
	return stands(t) && *(const volatile unsigned long *)&t->nvcsw == blocked_cnt;
}

/*
 * A thread that waits for a CPU stands still as well, though it may run at any moment: when it
 * does, it gives the CPU up again in one of the two ways that are counted.
 */
static __always_inline bool is_off_cpu(const struct task_struct *t)
{
	rt_u32 state = *(const volatile rt_u32 *)&t->__state;

	return !(state & TASK_DEAD) && !*(const volatile int *)&t->on_cpu;
}

static __always_inline rt_u64 times_off_cpu(const struct task_struct *t)
{
	return *(const volatile unsigned long *)&t->nvcsw +
	       *(const volatile unsigned long *)&t->nivcsw;
}

static __always_inline bool is_target(const struct task_struct *t)
{
	return t->tgid == (int)target_tgid && t->mm;
}

static __always_inline void unwind_standing(struct unwind *u, struct task_struct *t)
{
	guessed_before = 0;
	begin_in_kernel(u, (struct pt_regs *)bpf_task_pt_regs(t), t);
	unwind_user(u, t);
}

static __always_inline void tell(struct seq_file *seq, struct unwind *u, struct task_struct *t,
				 bool stood, bool waits)
{
	struct rt_standing head = { .pid = t->pid, .moves = !waits };
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(t);
	rt_u32 depth = u->depth;

	if (depth > RT_UNWIND_FRAMES)
		depth = RT_UNWIND_FRAMES;
	head.depth = stood ? depth : 0;
	head.end = u->end;
	head.sp = regs->sp;
	head.alt_lo = t->sas_ss_sp;
	head.alt_hi = t->sas_ss_sp + t->sas_ss_size;
	bpf_seq_write(seq, &head, sizeof(head));
	if (!stood)
		return;
	bpf_seq_write(seq, u->frame, depth * sizeof(u->frame[0]));
	bpf_seq_write(seq, steps, depth * sizeof(steps[0]));
}

/* Hands out all threads, with the stacks of those that wait, be it for a CPU. */
SEC("iter.s/task")
int standing(struct bpf_iter__task *ctx)
{
	struct task_struct *t = ctx->task;
	struct unwind *u;
	rt_u64 cnt;
	bool stood, waits;

	if (!t || !is_target(t))
		return 0;
	cnt = times_off_cpu(t);
	waits = stands(t);
	stood = is_off_cpu(t);
	u = unwind_begin(RT_UNWIND_STANDING);
	if (!u)
		return 0;
	if (stood) {
		unwind_standing(u, t);
		waits = waits && stands(t);
		stood = is_off_cpu(t) && times_off_cpu(t) == cnt;
	}
	tell(ctx->meta->seq, u, t, stood, stood && waits);
	unwind_end(u);
	return 0;
}

/*
 * The wait of a thread that stands, unless a switch has noted one. The thread may be woken at any
 * moment: whoever closes the wait sees it or not, so it is noted first, and taken back when the
 * thread turns out not to have stood still until then.
 */
static __always_inline bool note_older(struct task_struct *t, rt_u32 place, rt_u64 cnt)
{
	rt_u64 since = since_ns;
	struct rt_blocked *b = bpf_task_storage_get(&blocked, t, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!b)
		return false;
	b->older_place = place;
	if (__sync_val_compare_and_swap(&b->since_ns, 0, since))
		return false;
	if (has_stood(t, cnt))
		return true;
	__sync_val_compare_and_swap(&b->since_ns, since, 0);
	return false;
}

SEC("iter.s/task")
int stood_before(struct bpf_iter__task *ctx)
{
	struct task_struct *t = ctx->task;
	rt_u32 place;
	struct unwind *u;
	rt_u64 cnt;

	if (!t || !is_target(t) || !stands(t))
		return 0;
	cnt = t->nvcsw;
	u = unwind_begin(RT_UNWIND_STANDING);
	if (!u)
		return 0;
	keep_name(u, t);
	unwind_standing(u, t);
	place = keep_stack(u, RT_STACK_OFF_CPU_OLDER);
	unwind_end(u);
	if (note_older(t, place, cnt))
		__sync_fetch_and_add(&older_waits, 1);
	return 0;
}
