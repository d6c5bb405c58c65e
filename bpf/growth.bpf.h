/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Every map and every knob of the growth programs. Sizes of 1 are placeholders, set before load. */
#ifndef GROWTH_BPF_H
#define GROWTH_BPF_H

#include "owner.bpf.h"
#include "roletrace/growth.h"

/* key: call path * shards + shard. Written by the programs, read by collect. Bound: the paths. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_growth);
} grown SEC(".maps");

/* key: a thread's name. value: what it did outside traced functions. Threads of one name share a
 * row. Full, or no memory: it is in the row of no call path instead. */
struct thread_name {
	char comm[RT_COMM_BYTES];
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, RT_GROWTH_THREADS);
	__type(key, struct thread_name);
	__type(value, struct rt_growth);
} by_thread SEC(".maps");

/* Knobs, fixed at load. */
const volatile rt_u32 shard_mask;
const volatile bool with_paths; /* there are shadow stacks to look at */

/* Written by the daemon while the programs run. */
volatile rt_u32 target_tgid;
volatile rt_u32 gate; /* 1: count */

/* Written by the programs; the daemon puts in the first values. */
struct rt_growth_last last;

static __always_inline void add(rt_u64 *counter, rt_u64 n)
{
	__sync_fetch_and_add(counter, n);
}

#endif
