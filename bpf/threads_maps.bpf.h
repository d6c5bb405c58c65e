/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Every map and every knob of the scheduler programs. Nothing here allocates: these programs run
 * with a run queue locked, where waking the page allocator's helper would lock it again. So: hash
 * preallocated, rows in mmap-able arrays that the daemon reads as memory.
 */
#ifndef THREADS_MAPS_BPF_H
#define THREADS_MAPS_BPF_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "roletrace/threads.h"

/* key: pid. value: its row. Written at a thread's first event and its end. Bound: thread_rows - 1.
 * Full: lost threads_full. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, rt_u32);
} row_of SEC(".maps");

/* Rows whose thread is gone, to be taken again. Bound as above, cannot be full. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1);
	__type(value, rt_u32);
} free_rows SEC(".maps");

/* key: the name of threads that are gone. value: the row they are added up in. Written at the end
 * of the first of a name. Full: they are added up in row 0. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RT_THREAD_NAMES);
	__type(key, char[RT_COMM_BYTES]);
	__type(value, rt_u32);
} row_of_dead SEC(".maps");

/* key: row; the first are sums of the dead. value: a thread. Written by the programs, read by
 * collect. Bound: thread_rows. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_thread);
} threads SEC(".maps");

/* key: a hash of the address. value: the waits there. Written by the programs; collect reads, and
 * frees what nobody has waited at for long. No place within RT_FUTEX_PROBES: lost futexes_full. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_futex);
} futexes SEC(".maps");

/* key: chunk. value: 16 buckets of a row's or a futex's histogram, which keeps it for good. Bound:
 * chunk_cnt. Full: lost waits_histogram_full. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_hist_chunk);
} chunks SEC(".maps");

/* Knobs, fixed at load. */
const volatile rt_u32 thread_rows;
const volatile rt_u32 futex_mask;
const volatile rt_u32 chunk_cnt; /* chunk 0 unused */
const volatile rt_u32 ns_below;	 /* pid namespaces from the daemon's down to the target's */
const volatile rt_u64 hist_bounds[16] = RT_HIST_BOUNDS;

/* Written by the daemon while the programs run. */
volatile rt_u32 target_tgid;
volatile rt_u32 gate;	  /* 1: count */
volatile rt_u64 start_ns; /* when it opened */
volatile rt_u64 look;	  /* number of the iterator's pass */

/* Written by the programs. */
rt_u64 lost[RT_THREAD_LOST_CNT];
rt_u32 rows_taken;  /* of the living: row RT_THREAD_NAMES + n is the n-th taken, from 0 on */
rt_u32 names_taken; /* of the dead: row n + 1 is the n-th taken */
rt_u32 chunks_taken;

static __always_inline void lose(enum rt_thread_lost what)
{
	__sync_fetch_and_add(&lost[what], 1);
}

#endif
