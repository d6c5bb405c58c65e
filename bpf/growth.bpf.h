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

/* key: the place of a kept stack; behind the last one what was lost. Written by the programs, read
 * by collect. Bound: that of kept stacks. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_growth_stack);
} grown_stacks SEC(".maps");

/* Knobs, fixed at load. */
const volatile rt_u32 shard_mask;
const volatile bool with_paths;	  /* there are shadow stacks to look at */
const volatile rt_u32 lost_place; /* in grown_stacks */

/* Written by the daemon while the programs run. */
volatile rt_u32 target_tgid;
volatile rt_u32 gate; /* 1: count */
rt_u64 quota_ns;      /* of stacks of one sort of event, between two looks */

/* Written by both: the programs take fewer stacks when these take too long. */
volatile rt_u32 sample_shift[RT_GROWTH_EVENTS];
rt_u64 limit_ns[RT_GROWTH_EVENTS]; /* of taken[].ns, then the shift goes up */

/* Written by the programs; the daemon puts in the first values. */
struct rt_growth_last last;
struct rt_growth_taken taken[RT_GROWTH_EVENTS];

static __always_inline void add(rt_u64 *counter, rt_u64 n)
{
	__sync_fetch_and_add(counter, n);
}

#endif
