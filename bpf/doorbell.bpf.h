/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Waking the daemon. While nothing goes on it sleeps for long, and asks to be woken: by the hit
 * that makes a function worth a look, or by an exec. The hits since its last look are counted in
 * the function's configuration, which every probe reads anyway, and no further than it takes: a
 * hot function pays for a comparison.
 */
#ifndef DOORBELL_BPF_H
#define DOORBELL_BPF_H

#include "maps.bpf.h"

/* One byte each time the daemon is to wake up; what it says does not matter. Written by programs,
 * emptied by the daemon. Bound: a page. Full: it has not woken up from the last ones yet. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} doorbell SEC(".maps");

__noinline int ring(void)
{
	rt_u8 byte = 0;

	return bpf_ringbuf_output(&doorbell, &byte, sizeof(byte), BPF_RB_FORCE_WAKEUP) ? 1 : 0;
}

/* A probe of the function fired. Races lose a count, or ring once more: both do no harm. */
static __always_inline void note_hit(struct rt_fn_conf *conf)
{
	rt_u32 hits = *(volatile rt_u32 *)&conf->hits;

	if (hits >= RT_HITS_MUCH)
		return;
	*(volatile rt_u32 *)&conf->hits = hits + 1;
	if (hits + 1 == RT_HITS_MUCH && *(volatile rt_u32 *)&dozing &&
	    __sync_val_compare_and_swap(&dozing, 1, 0))
		ring();
}

#endif
