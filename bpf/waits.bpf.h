/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Waits counted by a key that has their stack in it. */
#ifndef WAITS_BPF_H
#define WAITS_BPF_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "roletrace/unwind.h"

/* map is a preallocated hash of struct rt_waits: a run queue may be locked here. false: full. */
static __always_inline bool count_waits(void *map, const void *key, rt_u64 ns)
{
	struct rt_waits first = {}, *w = bpf_map_lookup_elem(map, key);

	if (!w) {
		bpf_map_update_elem(map, key, &first, BPF_NOEXIST);
		w = bpf_map_lookup_elem(map, key);
	}
	if (!w)
		return false;
	__sync_fetch_and_add(&w->cnt, 1);
	__sync_fetch_and_add(&w->total_ns, ns);
	return true;
}

#endif
