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
	rt_u32 first; /* group of frames */
	rt_u32 same;
};

static __always_inline rt_u64 *group_of(struct unwind *u, rt_u64 n)
{
	return &u->frame[(n & (RT_UNWIND_FRAMES / RT_FRAMES_GROUP - 1)) * RT_FRAMES_GROUP];
}

static long compare_frames(rt_u64 n, struct kept_walk *w)
{
	rt_u32 key = w->first + (rt_u32)n;
	struct rt_kept_frames *there = bpf_map_lookup_elem(&kept_frames, &key);
	const rt_u64 *here = group_of(w->u, n);
	rt_u64 differ = 0;

	w->same = 0;
	if (!there)
		return 1;
	for (rt_u32 i = 0; i < RT_FRAMES_GROUP; i++)
		differ |= there->frame[i] ^ here[i];
	w->same = !differ;
	return !!differ;
}

/* Frames behind the last are 0 in a group that is not full. */
static __always_inline void pad_frames(struct unwind *u)
{
	rt_u32 depth = u->depth & (RT_UNWIND_FRAMES - 1);

	for (rt_u32 i = 0; i < RT_FRAMES_GROUP - 1 && u->depth % RT_FRAMES_GROUP; i++)
		u->frame[depth + i] = 0;
}

static __always_inline rt_u32 groups(const struct unwind *u)
{
	return (u->depth + RT_FRAMES_GROUP - 1) / RT_FRAMES_GROUP;
}

__noinline int is_same_stack(struct unwind *u, struct rt_kept_stack *s, rt_u32 kind)
{
	struct kept_walk w = { .u = u, .same = 1 };

	if (!u || !s || s->depth != u->depth || s->kind != kind || s->end != u->end)
		return 0;
	w.first = s->first / RT_FRAMES_GROUP;
	bpf_loop(groups(u), compare_frames, &w, 0);
	return w.same;
}

static long copy_frames(rt_u64 n, struct kept_walk *w)
{
	rt_u32 key = w->first + (rt_u32)n;
	struct rt_kept_frames *there = bpf_map_lookup_elem(&kept_frames, &key);
	const rt_u64 *here = group_of(w->u, n);

	if (!there)
		return 1;
	for (rt_u32 i = 0; i < RT_FRAMES_GROUP; i++)
		there->frame[i] = here[i];
	return 0;
}

/* Fills in a place that this CPU has just taken. */
__noinline int fill_kept(struct unwind *u, struct rt_kept_stack *s, rt_u32 kind)
{
	struct rt_kept_head *h = kept_head_now();
	struct kept_walk w = { .u = u };
	rt_u32 first, cnt;

	if (!u || !s || !h)
		return 0;
	cnt = groups(u) * RT_FRAMES_GROUP;
	first = __sync_fetch_and_add(&h->frames_taken, cnt);
	if (first + cnt > h->frame_cnt) {
		__sync_fetch_and_sub(&h->frames_taken, cnt);
		s->ready = RT_STACK_NO_ROOM;
		return 0;
	}
	w.first = first / RT_FRAMES_GROUP;
	bpf_loop(groups(u), copy_frames, &w, 0);
	s->first = first;
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
	pad_frames(u);
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
