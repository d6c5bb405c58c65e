/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* In whose name a wake-up is done: for programs at sched_waking, which runs where the waker is. */
#ifndef WHO_WAKES_BPF_H
#define WHO_WAKES_BPF_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "roletrace/threads.h"

#define KERNEL_STACK_BYTES 32768 /* with KASAN; else half of it */

/*
 * The kernel does not tell programs that they run in an interrupt. But that has a stack of its
 * own, which ctx lies on; unless it came in user mode: then the registers saved are no system
 * call's. (A page fault that wakes somebody is taken for an interrupt.)
 */
static __always_inline bool in_interrupt(struct task_struct *t, void *ctx)
{
	const struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(t);
	rt_u64 here = 0;

	bpf_probe_read_kernel(&here, sizeof(here), &ctx);
	if (here - (rt_u64)t->stack >= KERNEL_STACK_BYTES)
		return true;
	return t->mm && regs && (long)regs->orig_ax < 0;
}

static __always_inline enum rt_woken who_wakes(struct task_struct *waker, void *ctx, rt_u32 tgid)
{
	if (in_interrupt(waker, ctx))
		return RT_WOKEN_BY_INTERRUPT;
	return waker->tgid == (int)tgid ? RT_WOKEN_BY_THREAD : RT_WOKEN_BY_PROCESS;
}

#endif
