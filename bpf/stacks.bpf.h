/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Where a thread's shadow stack is kept: in its task's storage, or, where the kernel gives these
 * programs none, in a hash by thread id. Which one is a knob of the load, so the verifier takes
 * the other out of the programs: the hot path asks nothing. Knows nothing of what is in a stack.
 */
#ifndef STACKS_BPF_H
#define STACKS_BPF_H

#include "maps.bpf.h"

/* The thread's stack, or NULL when it has none yet. tid: task->pid, or what it was called then. */
static __always_inline struct rt_stack *stack_of(struct task_struct *t, rt_u32 tid)
{
	if (stacks_by_tid)
		return bpf_map_lookup_elem(&tid_stacks, &tid);
	return bpf_task_storage_get(&stacks, t, 0, 0);
}

/* A value for a hash is copied from memory: 12 KB that no program's own stack holds. */
static __noinline int add_tid_stack(rt_u32 tid)
{
	rt_u32 zero = 0;
	struct rt_stack *blank = bpf_map_lookup_elem(&blank_stack, &zero);

	return blank ? bpf_map_update_elem(&tid_stacks, &tid, blank, BPF_NOEXIST) : -1;
}

/* The same, made when there is none; NULL: no memory, or no place. */
static __always_inline struct rt_stack *stack_make(struct task_struct *t)
{
	struct rt_stack *s;
	rt_u32 tid = t->pid;

	/*
	 * The kernel may refuse for a moment: while it takes the storage of an earlier trace off
	 * this task, or when the few stacks it keeps ready on this CPU are used up (it fetches more
	 * before it returns). So it is asked twice.
	 */
	if (!stacks_by_tid) {
		s = bpf_task_storage_get(&stacks, t, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		return s ?: bpf_task_storage_get(&stacks, t, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	}
	s = bpf_map_lookup_elem(&tid_stacks, &tid);
	if (s || add_tid_stack(tid))
		return s;
	return bpf_map_lookup_elem(&tid_stacks, &tid);
}

/* The thread is gone. Task storage goes with its task; a place in the hash is given back. */
static __always_inline void stack_drop(rt_u32 tid)
{
	if (stacks_by_tid)
		bpf_map_delete_elem(&tid_stacks, &tid);
}

#endif
