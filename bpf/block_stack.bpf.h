/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The native stack of a block that was sampled, taken where its allocator returns: the registers
 * are those behind its `ret`, the instruction pointer is the return address (the kernel has put it
 * back before it calls return probes), so the innermost frame is the allocator's caller.
 */
#ifndef BLOCK_STACK_BPF_H
#define BLOCK_STACK_BPF_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "kept.bpf.h"
#include "memory.bpf.h"
#include "unwind.bpf.h"

static __always_inline rt_u32 unwind_block(struct pt_regs *regs, struct task_struct *t)
{
	struct unwind *u = unwind_begin_either(RT_UNWIND_MEMORY);
	rt_u32 place;

	if (!u)
		return 0;
	UNWIND_SET_REGS(u, regs);
	u->caller = 1;
	unwind_user(u, t);
	place = keep_stack(u, RT_STACK_ALLOC);
	unwind_end(u);
	return place;
}

/* What goes into rt_mem_block.stack. The block counts for its stack: what is allocated there. */
static __noinline rt_u32 block_stack(struct pt_regs *regs, struct task_struct *t, rt_u64 bytes,
				     rt_u32 threshold)
{
	rt_u64 weight = rt_sample_weight(threshold), begin = bpf_ktime_get_ns();
	rt_u32 place = unwind_block(regs, t);

	bytes = rt_sample_bytes(bytes, weight);
	if (place) {
		count_stack(place, weight, bytes);
	} else {
		lose(RT_MEM_LOST_STACKS);
		add(&native_lost_cnt, weight);
		add(&native_lost_bytes, bytes);
		place = RT_MEM_STACK_LOST;
	}
	add(&native_cnt, 1);
	add(&native_ns, bpf_ktime_get_ns() - begin);
	return place;
}

#endif
