/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Keeps distinct stacks, with their counts.
 *
 * Kept stacks are compared whole: two stacks of one hash stay two. A stack that finds no room is
 * counted as lost and its sample is in no other's count.
 */
#ifndef KEPT_BPF_H
#define KEPT_BPF_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "unwind.bpf.h"

static __always_inline rt_u64 load(const rt_u64 *p)
{
	return *(const volatile rt_u64 *)p;
}

/*
 * The name of the thread as innermost frames, where stacks are told apart by it: so stacks need no
 * room for names where these do not matter, and names of threads that have ended are known.
 */
static __always_inline void keep_name(struct unwind *u, const struct task_struct *t)
{
	struct rt_kept_head *h = kept_head_now();
	rt_u64 name[2] = {};

	if (!h || !h->by_thread)
		return;
	bpf_probe_read_kernel(name, sizeof(name), t->comm);
	keep_frame(u, RT_FRAME_PC(RT_OBJECT_NAME, name[0]));
	keep_frame(u, RT_FRAME_PC(RT_OBJECT_NAME, name[0] >> 48 | name[1] << 16));
	keep_frame(u, RT_FRAME_PC(RT_OBJECT_NAME, name[1] >> 32));
}

struct kept_walk {
	struct unwind *u;
	rt_u32 first;
	rt_u32 same;
};

static long compare_frame(rt_u64 n, struct kept_walk *w)
{
	rt_u32 key = w->first + (rt_u32)n;
	rt_u64 *f = bpf_map_lookup_elem(&kept_frames, &key);

	w->same = f && *f == w->u->frame[n & (RT_UNWIND_FRAMES - 1)];
	return !w->same;
}

__noinline int is_same_stack(struct unwind *u, struct rt_kept_stack *s, rt_u32 kind)
{
	struct kept_walk w = { .u = u, .same = 1 };

	if (!u || !s || s->depth != u->depth || s->kind != kind || s->end != u->end)
		return 0;
	w.first = s->first;
	bpf_loop(u->depth, compare_frame, &w, 0);
	return w.same;
}

static long copy_frame(rt_u64 n, struct kept_walk *w)
{
	rt_u32 key = w->first + (rt_u32)n;
	rt_u64 *f = bpf_map_lookup_elem(&kept_frames, &key);

	if (f)
		*f = w->u->frame[n & (RT_UNWIND_FRAMES - 1)];
	return 0;
}

/* Fills in a place that this CPU has just taken. */
__noinline int fill_kept(struct unwind *u, struct rt_kept_stack *s, rt_u32 kind)
{
	struct rt_kept_head *h = kept_head_now();
	struct kept_walk w = { .u = u };

	if (!u || !s || !h)
		return 0;
	w.first = __sync_fetch_and_add(&h->frames_taken, u->depth);
	if (w.first + u->depth > h->frame_cnt) {
		__sync_fetch_and_sub(&h->frames_taken, u->depth);
		s->ready = RT_STACK_NO_ROOM;
		return 0;
	}
	bpf_loop(u->depth, copy_frame, &w, 0);
	s->first = w.first;
	s->depth = (rt_u16)u->depth;
	s->kind = (rt_u8)kind;
	s->end = (rt_u8)u->end;
	s->guessed = u->guessed;
	(void)__sync_lock_test_and_set(&s->ready, RT_STACK_READY); /* orders what came before */
	return 1;
}

struct keep {
	struct unwind *u;
	rt_u64 hash;
	rt_u32 mask;
	rt_u32 kind;
	rt_u32 found; /* place + 1 */
};

static long keep_one(rt_u64 n, struct keep *k)
{
	rt_u32 place = ((rt_u32)k->hash + (rt_u32)n) & k->mask;
	struct rt_kept_stack *s = bpf_map_lookup_elem(&kept_stacks, &place);
	rt_u64 there;

	if (!s)
		return 1;
	there = load(&s->hash);
	if (!there)
		there = __sync_val_compare_and_swap(&s->hash, 0, k->hash);
	if (!there) {
		if (fill_kept(k->u, s, k->kind))
			k->found = place + 1;
		return 1;
	}
	if (there != k->hash)
		return 0;
	if (*(volatile rt_u32 *)&s->ready == RT_STACK_NO_ROOM)
		return 1;
	/* one that another CPU is writing just now is not known to be the same: the next place */
	if (*(volatile rt_u32 *)&s->ready != RT_STACK_READY || !is_same_stack(k->u, s, k->kind))
		return 0;
	k->found = place + 1;
	return 1;
}

/* The place + 1 of the stack in u, kept now or before; 0: lost, the caller counts it. */
static __always_inline rt_u32 keep_stack(struct unwind *u, rt_u32 kind)
{
	struct rt_kept_head *h = kept_head_now();
	struct keep k = { .u = u, .kind = kind };

	if (!h)
		return 0;
	k.mask = h->mask;
	k.hash = (u->hash ^ h->seed ^ kind) * 0x9e3779b97f4a7c15ull;
	k.hash ^= k.hash >> 32;
	k.hash |= 1ull << 63;
	bpf_loop(RT_STACK_PROBES, keep_one, &k, 0);
	return k.found;
}

static __always_inline void count_stack(rt_u32 found, rt_u64 cnt, rt_u64 total)
{
	rt_u32 place = found - 1;
	struct rt_kept_stack *s = bpf_map_lookup_elem(&kept_stacks, &place);

	if (!found || !s)
		return;
	__sync_fetch_and_add(&s->cnt, cnt);
	__sync_fetch_and_add(&s->total, total);
}

#endif
