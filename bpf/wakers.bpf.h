/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Who ends the waits, for --wakers: at sched_waking, in the waker's own context, its stack is taken
 * when it is a thread of the target; of others the name is kept, and that it was an interrupt.
 * What was noted is counted with the waiter's stack when that runs again.
 */
#ifndef WAKERS_BPF_H
#define WAKERS_BPF_H

#include "blocked.bpf.h"
#include "kept.bpf.h"
#include "unwind.bpf.h"
#include "waits.bpf.h"
#include "who_wakes.bpf.h"

const volatile bool wakers;

/* Written by the programs. */
rt_u64 wakes_lost; /* waits that found no place */

/* key: waiter and waker. value: waits. Written here, read by collect. Bound: set at load,
 * preallocated (this runs with a run queue locked). Full: wakes_lost. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct rt_wake);
	__type(value, struct rt_waits);
} wakes SEC(".maps");

static __always_inline void note_stack(struct rt_wake *w, struct task_struct *waker)
{
	struct unwind *u = unwind_begin(RT_UNWIND_WAKER);

	if (!u)
		return;
	begin_in_kernel(u, (struct pt_regs *)bpf_task_pt_regs(waker));
	unwind_user(u, waker);
	w->waker = keep_stack(u, RT_STACK_WAKER);
	unwind_end(u);
}

static __always_inline void forget_waker(struct rt_blocked *b)
{
	if (wakers)
		b->wake = (struct rt_wake){};
}

/* The wait in b is being ended by the current thread, or by an interrupt that came to it. */
static __always_inline void note_waker(struct rt_blocked *b, void *ctx, rt_u32 tgid)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	rt_u32 who = who_wakes(waker, ctx, tgid);

	if (b->wake.who)
		return;
	if (who == RT_WOKEN_BY_THREAD)
		note_stack(&b->wake, waker);
	else if (who == RT_WOKEN_BY_PROCESS)
		bpf_probe_read_kernel(b->wake.comm, sizeof(b->wake.comm), waker->comm);
	b->wake.who = who + 1;
}

/* The wait in b, at the stack in place, has ended. */
static __always_inline void count_wake(struct rt_blocked *b, rt_u32 place, rt_u64 ns)
{
	struct rt_wake key;

	if (!wakers || !place)
		return;
	key = b->wake;
	key.place = place;
	if (!count_waits(&wakes, &key, ns))
		__sync_fetch_and_add(&wakes_lost, 1);
}

#endif
