/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Every map and every knob of the memory programs. They are an object of their own, loaded only
 * when memory is traced; the shadow stacks are those of the function programs (the daemon hands
 * their map over before load). Sizes of 1 are placeholders, set before load.
 */
#ifndef MEMORY_BPF_H
#define MEMORY_BPF_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "owner.bpf.h"
#include "roletrace/hist.h"
#include "roletrace/memory.h"
#include "roletrace/sample.h"

/* key: thread. value: its call of the allocator that has begun. Bound: one per thread, freed with
 * it. No memory: lost memory_no_storage. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rt_mem_call);
} calls SEC(".maps");

/* key: (family * RT_MEM_CLASSES + size class) * shards + shard. Written by probes, read by
 * collect. Cannot be full. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_mem_sums);
} sums SEC(".maps");

/* key: family * shards + shard. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_mem_events);
} events SEC(".maps");

/* key: call path * shards + shard. What was allocated there, and freed of it. Bound: the paths. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_mem_sums);
} owners SEC(".maps");

/* key: address. value: the live block. Written by the thread that allocates or frees it, read by
 * collect. Bound: --max-blocks. Full: counted as unowned. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, rt_u64);
	__type(value, struct rt_mem_block);
} blocks SEC(".maps");

/* Knobs, fixed at load. */
const volatile rt_u32 shard_mask;
const volatile bool stacks_mode;  /* blocks by address, whatever the family */
const volatile bool sample_table; /* only blocks of the sample have an entry */
const volatile rt_u32 sample_thresholds[RT_SAMPLE_CLASSES]; /* 0: none is in the sample */

/* Written by the daemon while the programs run. */
volatile rt_u32 target_tgid;
volatile rt_u32 gate; /* 1: count */

/* Written by the programs. */
rt_u64 lost[RT_MEM_LOST_CNT];
rt_u64 native_cnt, native_ns;		   /* stacks taken, and how long that took in all */
rt_u64 native_lost_cnt, native_lost_bytes; /* what blocks stand for whose stack was not kept */

static __always_inline void add(rt_u64 *counter, rt_u64 n)
{
	__sync_fetch_and_add(counter, n);
}

static __always_inline void lose(enum rt_mem_lost what)
{
	add(&lost[what], 1);
}

#endif
