/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The native stacks of a sample of what makes the process larger, and what they stand for. Only
 * these take time: most events of a storm cost a random number.
 *
 * The programs at the kernel's events cannot be preempted, and none of them unwinds in another's
 * midst: the faults that reading a stack takes are no touches (growth.bpf.c).
 */
#ifndef GROWTH_STACK_BPF_H
#define GROWTH_STACK_BPF_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "growth.bpf.h"
#include "kept.bpf.h"
#include "sampled.bpf.h"
#include "spent.bpf.h"
#include "unwind.bpf.h"

/* Of a thread that entered the kernel with these registers: by a system call, which is its
 * innermost frame then, or because it touched a page. */
static __always_inline rt_u32 unwind_growth(const struct pt_regs *regs, struct task_struct *t)
{
	struct unwind *u = unwind_begin_either(RT_UNWIND_GROWTH);
	rt_s64 call = (rt_s64)regs->orig_ax;
	rt_u32 place;

	if (!u)
		return 0;
	UNWIND_SET_REGS(u, regs);
	if (call >= 0)
		keep_frame(u, RT_FRAME_PC(RT_OBJECT_KERNEL, (rt_u64)call + 1));
	unwind_user(u, t);
	place = keep_stack(u, RT_STACK_GROWTH);
	unwind_end(u);
	return place;
}

/*
 * The quota is used up before the daemon has looked: half as many from here on, with another quota.
 * What was taken until now knows nothing of the events to come, so each counts for what it stands
 * for all the same. Below a page all shifts are one.
 */
static __always_inline void hold_back(enum rt_growth_event event)
{
	rt_u64 limit = load(&limit_ns[event]);
	rt_u32 shift = sample_shift[event];

	if (load(&taken[event].ns) <= limit || shift >= RT_GROWTH_MOST_SHIFT)
		return;
	if (__sync_val_compare_and_swap(&limit_ns[event], limit, limit + quota_ns) != limit)
		return; /* on another CPU just now */
	sample_shift[event] = (shift > RT_GROWTH_PAGE_BITS ? shift : RT_GROWTH_PAGE_BITS) + 1;
}

static __always_inline void count_taken(enum rt_growth_event event, rt_u64 took_ns, bool kept)
{
	add(&taken[event].cnt, 1);
	add(&taken[event].lost, !kept);
	if (took_ns > SPENT_DISTURBED_NS)
		return;
	add(&taken[event].ns, took_ns);
	hold_back(event);
}

/* Where an event counts that is in the sample. */
static __always_inline struct rt_growth_stack *
stack_of(const struct pt_regs *regs, struct task_struct *t, enum rt_growth_event event)
{
	rt_u64 begin = bpf_ktime_get_ns();
	rt_u32 place = unwind_growth(regs, t), key = place ? place - 1 : lost_place;

	count_stack(place, 1, 0);
	count_taken(event, bpf_ktime_get_ns() - begin, place);
	return bpf_map_lookup_elem(&grown_stacks, &key);
}

static __always_inline rt_u64 bytes_of(rt_s64 pages)
{
	return (rt_u64)(pages < 0 ? -pages : pages) << RT_GROWTH_PAGE_BITS;
}

static __always_inline rt_u64 square_of(rt_u32 threshold, rt_u32 shift)
{
	rt_u64 pages = 1ull << shift >> RT_GROWTH_PAGE_BITS;

	return threshold == RT_SAMPLE_ALWAYS ? 0 : pages * pages;
}

/* A change of the map, by the larger of its two sides: what only becomes writable is data alone. */
static __always_inline void map_stack(const struct pt_regs *regs, struct task_struct *t,
				      rt_s64 pages, rt_s64 data)
{
	rt_u64 bytes = bytes_of(pages), data_bytes = bytes_of(data), weight;
	rt_u32 shift = sample_shift[RT_GROWTH_MAP] & 31, threshold;
	struct rt_growth_stack *s;

	threshold = draw(rt_sample_threshold(bytes > data_bytes ? bytes : data_bytes, shift));
	s = threshold ? stack_of(regs, t, RT_GROWTH_MAP) : 0;
	if (!s)
		return;
	weight = rt_sample_weight(threshold);
	add(&s->changes, weight);
	add(pages > 0 ? &s->mapped : &s->unmapped, rt_sample_bytes(bytes, weight));
	add(data > 0 ? &s->data_up : &s->data_down, rt_sample_bytes(data_bytes, weight));
	add(&s->map_squares, square_of(threshold, shift));
}

static __always_inline void fault_stack(const struct pt_regs *regs, struct task_struct *t)
{
	rt_u32 shift = sample_shift[RT_GROWTH_FAULT] & 31, threshold;
	struct rt_growth_stack *s;

	threshold = draw(rt_sample_threshold(1u << RT_GROWTH_PAGE_BITS, shift));
	s = threshold ? stack_of(regs, t, RT_GROWTH_FAULT) : 0;
	if (!s)
		return;
	add(&s->faults, rt_sample_weight(threshold));
	add(&s->fault_squares, square_of(threshold, shift));
}

#endif
