/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Counters, histograms and edges: where a finished call is booked. Knows nothing of stacks.
 *
 * book_call and edge_add are global functions: the verifier looks at each once, alone, instead of
 * at every combination of their branches with those of the callers (70,000 steps against 3,000).
 */
#ifndef STATS_BPF_H
#define STATS_BPF_H

#include "maps.bpf.h"

static __always_inline rt_u32 this_shard(void)
{
	return bpf_get_smp_processor_id() & shard_mask;
}

static __always_inline struct rt_fn_stats *stats_of(rt_u32 fn)
{
	rt_u32 key = fn * (shard_mask + 1) + this_shard();

	return bpf_map_lookup_elem(&fn_stats, &key);
}

/* Raises *max to v. Four lost races in a row on one shard do not happen. */
static __always_inline void raise_to(rt_u64 *max, rt_u64 v)
{
	rt_u64 seen = *(volatile rt_u64 *)max, old;

	for (int i = 0; i < 4 && v > seen; i++) {
		old = __sync_val_compare_and_swap(max, seen, v);
		if (old == seen)
			break;
		seen = old;
	}
}

/* The number of the function's chunk c, taken from the pool at the first hit; 0: the pool is full.
 */
static __always_inline rt_u32 chunk_of(struct rt_hist_dir *dir, rt_u32 c)
{
	rt_u32 *slot = &dir->chunk[c & (RT_HIST_CHUNKS - 1)];
	rt_u32 chunk = *(volatile rt_u32 *)slot, old;

	if (chunk)
		return chunk;
	if (*(volatile rt_u32 *)&chunks_taken + 1 >= hist_chunks)
		return 0;
	chunk = __sync_fetch_and_add(&chunks_taken, 1) + 1;
	if (chunk >= hist_chunks)
		return 0;
	/* the loser of a race leaves its chunk unused: rare, and bounded by the pool */
	old = __sync_val_compare_and_swap(slot, 0, chunk);
	return old ? old : chunk;
}

static __always_inline struct rt_fn_conf *conf_of(rt_u32 fn)
{
	return bpf_map_lookup_elem(&fn_confs, &fn);
}

static __always_inline void hist_add(struct rt_fn_stats *st, rt_u32 fn, rt_u64 ns)
{
	struct rt_fn_conf *conf;
	struct rt_hist_chunk *chunk;
	struct rt_hist_dir *dir;
	rt_u32 place, key;

	if (!ns) {
		add(&st->zero_cnt, 1);
		return;
	}
	dir = bpf_map_lookup_elem(&hist_dirs, &fn);
	if (!dir)
		return;
	place = rt_hist_place(ns, (const rt_u64 *)hist_bounds);
	key = chunk_of(dir, place / RT_HIST_CHUNK);
	if (key) {
		key = key * (shard_mask + 1) + this_shard();
		chunk = bpf_map_lookup_elem(&hist_pool, &key);
		if (chunk) {
			add(&chunk->count[place % RT_HIST_CHUNK], 1);
			return;
		}
	}
	lose(RT_LOST_HISTOGRAM_FULL);
	conf = conf_of(fn);
	if (conf)
		add(&conf->hist_lost, 1);
}

__noinline int edge_add(rt_u32 caller, rt_u32 callee, rt_u64 ns)
{
	rt_u32 shard = this_shard();
	rt_u64 key = RT_EDGE_KEY(caller, callee, shard), seen;
	rt_u32 at = caller * 0x9e3779b1u + callee * 0x85ebca6bu + shard * 0xc2b2ae35u;

	at ^= at >> 15;
	for (rt_u32 i = 0; i < RT_EDGE_PROBES; i++) {
		rt_u32 slot = (at + i) & edge_mask;
		struct rt_edge *e = bpf_map_lookup_elem(&edges, &slot);

		if (!e)
			break;
		seen = *(volatile rt_u64 *)&e->key;
		if (!seen) {
			seen = __sync_val_compare_and_swap(&e->key, 0, key);
			if (!seen)
				seen = key;
		}
		if (seen == key) {
			add(&e->calls, 1);
			add(&e->total_ns, ns);
			return 0;
		}
	}
	lose(RT_LOST_EDGES_FULL);
	return 0;
}

/* The path of fn called from a path: found, or given its place. */
__noinline int path_step(rt_u32 parent, rt_u32 fn)
{
	rt_u64 key = RT_PATH_KEY(parent, fn), seen;
	rt_u32 at = parent * 0x9e3779b1u + fn * 0x85ebca6bu;

	if (parent == RT_PATH_FULL)
		goto full;
	at ^= at >> 15;
	for (rt_u32 i = 0; i < RT_PATH_PROBES; i++) {
		rt_u32 slot = (at + i) & path_mask;
		rt_u64 *place = bpf_map_lookup_elem(&paths, &slot);

		if (!place)
			break;
		seen = *(volatile rt_u64 *)place;
		if (!seen) {
			seen = __sync_val_compare_and_swap(place, 0, key);
			if (!seen)
				seen = key;
		}
		if (seen == key)
			return (int)(slot + RT_PATH_FIRST);
	}
full:
	lose(RT_LOST_PATHS_FULL);
	return RT_PATH_FULL;
}

static __always_inline void path_add(rt_u32 path, rt_u64 ns, rt_u64 self_ns)
{
	rt_u32 key = path * (shard_mask + 1) + this_shard();
	struct rt_path_stats *p = bpf_map_lookup_elem(&path_stats, &key);

	if (!p)
		return;
	add(&p->calls, 1);
	add(&p->sum_ns, ns);
	add(&p->self_ns, self_ns);
}

#define BOOK_NESTED 1u
#define BOOK_TAIL 2u
#define BOOK_CLAMPED 4u
#define BOOK_STEPPED 8u

/* A call of fn returned after dt (corrected by taken_off). */
__noinline int book_call(rt_u32 fn, rt_u64 dt, rt_u64 inner_ns, rt_u64 taken_off, rt_u32 flags)
{
	struct rt_fn_stats *st = stats_of(fn);

	if (!st)
		return 0;
	add(&st->returned, 1);
	add(&st->sum_ns, dt);
	if (inner_ns)
		add(&st->inner_ns, inner_ns);
	if (flags & BOOK_NESTED)
		add(&st->nested_ns, dt);
	if (taken_off)
		add(&st->corrected_ns, taken_off);
	if (flags & BOOK_CLAMPED)
		add(&st->clamped, 1);
	if (flags & BOOK_STEPPED)
		add(&st->stepped, 1);
	if (flags & BOOK_TAIL)
		add(&st->tail_exits, 1);
	raise_to(&st->max_ns, dt);
	raise_to(&st->min_inv_ns, ~dt);
	hist_add(st, fn, dt);
	return 0;
}

#endif
