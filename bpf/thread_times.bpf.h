/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Durations and their histograms, of threads' waits for a CPU and of waits at futexes: where a wait
 * that has ended is booked. queue_add and futex_add are global functions: the verifier looks at
 * each once, alone.
 */
#ifndef THREAD_TIMES_BPF_H
#define THREAD_TIMES_BPF_H

#include "threads_maps.bpf.h"

/* The number of the chunk c of these durations; 0: none left. */
static __always_inline rt_u32 chunk_of(struct rt_times *t, rt_u32 c)
{
	rt_u32 *slot = &t->chunk[c & (RT_HIST_CHUNKS - 1)], n = *(volatile rt_u32 *)slot, old;

	if (n)
		return n;
	if (*(volatile rt_u32 *)&chunks_taken + 1 >= chunk_cnt)
		return 0;
	n = __sync_fetch_and_add(&chunks_taken, 1) + 1;
	if (n >= chunk_cnt)
		return 0;
	old = __sync_val_compare_and_swap(slot, 0, n);
	return old ? old : n;
}

static __always_inline void raise_to(rt_u64 *max, rt_u64 v)
{
	if (v > *(volatile rt_u64 *)max)
		*(volatile rt_u64 *)max = v;
}

static __always_inline void times_add(struct rt_times *t, rt_u64 ns)
{
	struct rt_hist_chunk *chunk;
	rt_u32 place, key;

	__sync_fetch_and_add(&t->cnt, 1);
	__sync_fetch_and_add(&t->sum_ns, ns);
	raise_to(&t->max_ns, ns);
	raise_to(&t->min_inv_ns, ~ns);
	if (!ns) {
		__sync_fetch_and_add(&t->zero_cnt, 1);
		return;
	}
	place = rt_hist_place(ns, (const rt_u64 *)hist_bounds);
	key = chunk_of(t, place / RT_HIST_CHUNK);
	chunk = key ? bpf_map_lookup_elem(&chunks, &key) : NULL;
	if (chunk) {
		__sync_fetch_and_add(&chunk->count[place % RT_HIST_CHUNK], 1);
		return;
	}
	__sync_fetch_and_add(&t->hist_lost, 1);
	lose(RT_THREAD_LOST_CHUNKS);
}

/* Of row's waits for a CPU. */
__noinline int queue_add(rt_u32 row, rt_u64 ns)
{
	struct rt_thread *r = bpf_map_lookup_elem(&threads, &row);

	if (r)
		times_add(&r->queue, ns);
	return 0;
}

__noinline int futex_add(rt_u64 addr, rt_u64 ip, rt_u64 op_val, rt_u32 lock, rt_u64 ns)
{
	rt_u64 hash = addr * 0x9e3779b97f4a7c15ull, seen;
	rt_u32 at = hash >> 40;

	for (rt_u32 i = 0; i < RT_FUTEX_PROBES; i++) {
		rt_u32 slot = (at + i) & futex_mask;
		struct rt_futex *f = bpf_map_lookup_elem(&futexes, &slot);

		if (!f)
			break;
		seen = *(volatile rt_u64 *)&f->addr;
		if (!seen) {
			seen = __sync_val_compare_and_swap(&f->addr, 0, addr);
			if (!seen)
				seen = addr;
		}
		if (seen != addr)
			continue;
		f->ip = ip;
		f->op = op_val >> 32;
		f->val = (rt_u32)op_val;
		f->lock = lock;
		f->last_end_ns = bpf_ktime_get_ns();
		times_add(&f->wait, ns);
		return 0;
	}
	lose(RT_THREAD_LOST_FUTEXES);
	return 0;
}

#endif
