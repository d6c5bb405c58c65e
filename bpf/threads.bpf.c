/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The scheduler's events: which state each thread of the target is in, and how long. Knows nothing
 * of functions or of stacks.
 *
 * Each event ends one state and begins another, so the times of a thread add up to its life by
 * construction:
 *
 *	runnable --in--> running --out--> blocked by what it waits in --waking--> runnable
 *	                    '------out, could go on----> preempted --in--> running
 *
 * What a thread waits in is read where it blocks, from the registers that its system call saved: a
 * few loads, where tracepoints at system calls would cost each call of each process.
 *
 * sched_waking is used, not sched_wakeup: it runs in the waker's own context, so "who woke it" is
 * known. It may come in the moment between the thread's decision to block and its switch-out; then
 * the thread is still running for us, and the event is left to the switch-in, which closes any
 * state.
 *
 * Every switch of the machine runs `sched_switch` here: foreign ones leave after two comparisons.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "spent.bpf.h"
#include "thread_rows.bpf.h"
#include "threads_maps.bpf.h"
#include "who_wakes.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define TASK_STOPPED_OR_TRACED 0x0c /* include/linux/sched.h */
#define TASK_DEAD 0x80

/* ---- events ---- */

static __always_inline bool is_blocked(rt_u32 state)
{
	return state >= RT_STATE_FUTEX && state < RT_STATE_EXITED;
}

/* A wait ends now. One from before the gate opened is of unknown length: in no histogram. */
static __always_inline void end_wait(struct rt_thread *r, rt_u32 row, rt_u64 now)
{
	rt_u64 since = r->since_ns, ns = now > since ? now - since : 0;
	rt_u32 state = r->state;

	settle_to(r, now);
	if (since <= start_ns)
		return;
	if (state == RT_STATE_RUNNABLE || state == RT_STATE_PREEMPTED)
		queue_add(row, ns);
	else if ((state == RT_STATE_FUTEX || state == RT_STATE_LOCK) && r->wait_addr)
		futex_add(r->lock_addr ?: r->wait_addr, r->wait_ip,
			  (rt_u64)r->wait_op << 32 | r->wait_val, r->lock, ns);
}

static __always_inline void begin(struct rt_thread *r)
{
	__sync_fetch_and_add(&r->seq, 1);
}

static __always_inline void end(struct rt_thread *r)
{
	__sync_fetch_and_add(&r->seq, 1);
}

/*
 * The thread leaves its CPU. That it came there was not seen in some few of ten thousand cases (on
 * a busy machine of 2 CPUs): then the kernel's account tells for how long it has run.
 */
static __always_inline void settle_running(struct rt_thread *r, rt_u64 exec_ns, rt_u64 now)
{
	rt_u64 ran = exec_ns - r->exec_ns, ns = now > r->since_ns ? now - r->since_ns : 0;

	r->exec_ns = exec_ns;
	if (r->state == RT_STATE_RUNNING) {
		r->stolen_ns += ns - ran;
	} else if (ran < ns) {
		r->ns[RT_STATE_RUNNING] += ran;
		r->since_ns += ran;
	}
	settle_to(r, now);
}

static __always_inline void switched_out(struct task_struct *t, bool preempt, rt_u32 task_state,
					 rt_u64 now)
{
	rt_u32 row = row_for(t, RT_STATE_RUNNING);
	struct rt_thread *r = row ? row_at(row) : NULL;

	if (!r)
		return;
	begin(r);
	settle_running(r, t->se.sum_exec_runtime, now);
	r->user_ns = t->utime;
	r->system_ns = t->stime;
	if (task_state & TASK_DEAD) {
		/* it may have taken another name since the last look, or never have had one */
		bpf_probe_read_kernel(r->comm, sizeof(r->comm), t->comm);
		r->state = RT_STATE_EXITED;
	} else if (preempt || !task_state || !t->__state) {
		/* a signal came between its decision to block and here: __state is 0 again */
		r->involuntary++;
		r->state = RT_STATE_PREEMPTED;
	} else {
		r->voluntary++;
		r->state = task_state & TASK_STOPPED_OR_TRACED ? RT_STATE_STOPPED
							       : blocked_in(r, t, true);
	}
	end(r);
	/* with the whole process gone its threads stay to be seen */
	if (task_state & TASK_DEAD && !(t->signal->flags & SIGNAL_GROUP_EXIT))
		bury(row);
}

static __always_inline void switched_in(struct task_struct *t, rt_u64 now)
{
	rt_u32 row = row_for(t, RT_STATE_RUNNABLE), cpu = bpf_get_smp_processor_id();
	struct rt_thread *r = row ? row_at(row) : NULL;

	if (!r)
		return;
	begin(r);
	end_wait(r, row, now);
	r->migrations += r->cpu != cpu && r->cpu != (rt_u32)-1;
	r->cpu = cpu;
	r->state = RT_STATE_RUNNING;
	end(r);
}

static __always_inline void book_waker(struct rt_thread *r, void *ctx)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	rt_u32 who = who_wakes(waker, ctx, target_tgid), pid = waker->pid;

	r->woken[who & 3]++;
	if (who != RT_WOKEN_BY_THREAD)
		return;
	for (int i = 0; i < (int)RT_WAKERS; i++) {
		if (!r->wakers[i].pid)
			r->wakers[i].pid = pid;
		if (r->wakers[i].pid == pid) {
			r->wakers[i].cnt++;
			return;
		}
	}
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct spending cost;
	rt_u64 now;

	if (prev->tgid != (int)target_tgid && next->tgid != (int)target_tgid)
		return 0;
	if (!gate)
		return 0;
	spending_begins(RT_SPENT_SWITCH, &cost);
	now = bpf_ktime_get_ns();
	if (prev->tgid == (int)target_tgid)
		switched_out(prev, preempt, prev_state, now);
	if (next->tgid == (int)target_tgid)
		switched_in(next, now);
	spending_ends(&cost);
	return 0;
}

static __always_inline void woken(void *ctx, struct task_struct *t)
{
	struct rt_thread *r;
	rt_u32 row;

	/* with no row it has done nothing since the gate opened: it was blocked */
	row = row_for(t, t->on_cpu ? RT_STATE_RUNNING : RT_STATE_OTHER);
	r = row ? row_at(row) : NULL;
	if (!r || !is_blocked(r->state))
		return;
	begin(r);
	end_wait(r, row, bpf_ktime_get_ns());
	r->state = RT_STATE_RUNNABLE;
	book_waker(r, ctx);
	end(r);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *t)
{
	struct spending cost;

	if (t->tgid != (int)target_tgid || !gate)
		return 0;
	spending_begins(RT_SPENT_WAKING, &cost);
	woken(ctx, t);
	spending_ends(&cost);
	return 0;
}

/* A new thread, ready to run. */
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct *t)
{
	if (t->tgid == (int)target_tgid && gate)
		new_row(t, RT_STATE_RUNNABLE, bpf_ktime_get_ns());
	return 0;
}

/* ---- looking at all ---- */

static __always_inline rt_u32 state_now(const struct task_struct *t)
{
	rt_u32 state = t->__state;

	if (t->on_cpu)
		return RT_STATE_RUNNING;
	if (!state)
		return RT_STATE_PREEMPTED;
	return state & TASK_STOPPED_OR_TRACED ? RT_STATE_STOPPED : RT_STATE_OTHER;
}

/* Gives a row to each thread that has had no event yet, and notes what only the task knows. */
SEC("iter/task")
int look_at(struct bpf_iter__task *ctx)
{
	struct task_struct *t = ctx->task;
	struct rt_thread *r;
	rt_u32 row;

	if (!t || t->tgid != (int)target_tgid || t->exit_state || t->__state & TASK_DEAD)
		return 0;
	row = row_for(t, state_now(t));
	r = row ? row_at(row) : NULL;
	if (!r)
		return 0;
	bpf_probe_read_kernel(r->comm, sizeof(r->comm), t->comm);
	r->user_ns = t->utime;
	r->system_ns = t->stime;
	r->look = look;
	return 0;
}
