/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Every map and every knob of the function programs. Arrays are mmap-able: the daemon polls them
 * by reading memory. Sizes of 1 are placeholders, set before load.
 */
#ifndef MAPS_BPF_H
#define MAPS_BPF_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "roletrace/abi.h"
#include "roletrace/hist.h"

/* key: thread. value: its shadow stack. Written by the thread's own probes, read by the settling
 * iterator. Bound: one per thread of the target, freed with it. No memory: lost no_storage. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rt_stack);
} stacks SEC(".maps");

/* The same where the kernel gives these programs no task storage (stacks_by_tid); else it is not
 * made. key: thread id. Written by the thread's own probes, taken out at its exit. Bound:
 * RT_TID_STACKS threads with a traced call behind them. Full: lost no_storage. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RT_TID_STACKS);
	__type(key, rt_u32);
	__type(value, struct rt_stack);
} tid_stacks SEC(".maps");

/* key: 0. value: zeros, what a new entry of tid_stacks is copied from. Nobody writes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_stack);
} blank_stack SEC(".maps");

/* key: function id * shards + shard. value: counters. Written by probes, read by collect. Bound:
 * planned functions, cannot be full. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_fn_stats);
} fn_stats SEC(".maps");

/* key: function id. value: what the daemon wants of it, rare counters, and whether it was hit.
 * Written by links, windows and the first hits after a look, read by probes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_fn_conf);
} fn_confs SEC(".maps");

/* key: function id. value: numbers of its bucket chunks, handed out at the first hit. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_hist_dir);
} hist_dirs SEC(".maps");

/* key: chunk * shards + shard. value: 16 buckets. Written by probes, read by collect. Bound:
 * hist_chunks. Full: lost histogram_full, and the function's hist_lost. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_hist_chunk);
} hist_pool SEC(".maps");

/* key: a hash of (caller, callee, shard), open addressing. Written by exit probes, read by
 * collect. Bound: edge_mask + 1. No free place within RT_EDGE_PROBES: lost edges_full. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_edge);
} edges SEC(".maps");

/* key: path id - RT_PATH_FIRST, by hash. value: RT_PATH_KEY. Written by entry probes, read by
 * collect. Bound: path_mask + 1. No free place within RT_PATH_PROBES: lost paths_full. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, rt_u64);
} paths SEC(".maps");

/* key: path id * shards + shard. value: counters. Written by exit probes, read by collect. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_path_stats);
} path_stats SEC(".maps");

/* Knobs, fixed at load. */
const volatile rt_u32 shard_mask;  /* shards - 1 */
const volatile rt_u32 hist_chunks; /* chunks in the pool, chunk 0 unused */
const volatile rt_u32 edge_mask;
const volatile rt_u32 path_mask;
const volatile bool raw;	   /* no correction */
const volatile bool stacks_by_tid; /* shadow stacks are in tid_stacks */
const volatile rt_u64 hist_bounds[16] = RT_HIST_BOUNDS;

/* Written by the daemon while the programs run. */
volatile rt_u32 target_tgid;
volatile rt_u32 gate;	  /* 1: count */
volatile rt_u8 catch_gen; /* the live generation of the catch sites */
rt_u32 dozing;		  /* 1: the daemon is to be woken; back to 0 when that is done */
volatile struct rt_prices prices;

/* Written by the programs. */
rt_u64 lost[RT_LOST_CNT];
rt_u64 landings[RT_INSN_CLASSES]; /* hits of catch sites, by class */
rt_u32 chunks_taken;		  /* chunk n + 1 is the n-th taken */
rt_s32 exit_code;		  /* wait status of the last thread to exit */
rt_u32 found_tgid;		  /* by identify */
rt_u32 exec_seen;		  /* the target replaced its program: the gate is shut */
rt_u32 leader_gone;		  /* the main thread exited, others go on */

static __always_inline void add(rt_u64 *counter, rt_u64 n)
{
	__sync_fetch_and_add(counter, n);
}

static __always_inline void lose(enum rt_lost what)
{
	add(&lost[what], 1);
}

#endif
