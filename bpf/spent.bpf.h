/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Programs that time themselves: one run in some sixteen, at irregular distances (events alternate,
 * and a fixed step would see one kind alone). What is timed is what a server's caches make of it,
 * so no price needs to be predicted. The kernel's own statistics would take two readings of the
 * clock from every program of the machine.
 */
#ifndef SPENT_BPF_H
#define SPENT_BPF_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "roletrace/spent.h"

#define SPENT_APART 31ull	  /* up to so many runs between two that are timed */
#define SPENT_DISTURBED_NS 200000 /* something else took the CPU */

/* key: a program. value: what it took. Written by the programs, read by the daemon. Bound: their
 * number. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RT_SPENT_PROGRAMS);
	__type(key, rt_u32);
	__type(value, struct rt_spent);
} spent SEC(".maps");

struct spending {
	struct rt_spent *of;
	rt_u64 begin; /* 0: this run is not timed */
};

/* Call it where the event is known to be the target's. */
static __always_inline void spending_begins(rt_u32 program, struct spending *s)
{
	s->of = bpf_map_lookup_elem(&spent, &program);
	s->begin = 0;
	if (s->of && ++s->of->cnt > s->of->next)
		s->begin = bpf_ktime_get_ns();
}

static __always_inline void spending_ends(const struct spending *s)
{
	rt_u64 end, reading, took;

	if (!s->of || !s->begin)
		return;
	end = bpf_ktime_get_ns();
	reading = bpf_ktime_get_ns() - end;
	took = end - s->begin;
	s->of->next = s->of->cnt + (end & SPENT_APART);
	if (took > SPENT_DISTURBED_NS)
		return;
	s->of->timed++;
	s->of->ns += took > reading ? took - reading : 0;
}

#endif
