/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Whose doing something is: the call path that a thread is in. For objects other than that of the
 * function programs, whose shadow stacks they are lent. Knows nothing of what was done.
 */
#ifndef OWNER_BPF_H
#define OWNER_BPF_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "roletrace/abi.h"

/* Frames of panicked calls that were not swept yet: this many are looked through. */
#define STALE_FRAMES 4

/* The function programs' own: only read here. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rt_stack);
} stacks SEC(".maps");

/* The call path that is running: that of the innermost frame that is not known to be dead. */
static __always_inline rt_u32 owner_at(struct task_struct *t, rt_u64 sp)
{
	struct rt_stack *s = bpf_task_storage_get(&stacks, t, 0, 0);
	rt_u32 depth;

	if (!s)
		return RT_PATH_ROOT;
	depth = s->depth;
	for (int i = 0; i < STALE_FRAMES && depth; i++, depth--) {
		const struct rt_frame *f = &s->f[(depth - 1) & (RT_STACK_DEPTH - 1)];

		if (f->sp > sp || f->flags & RT_FRAME_FOREIGN)
			return f->path;
	}
	return RT_PATH_ROOT;
}

#endif
