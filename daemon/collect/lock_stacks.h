/* SPDX-License-Identifier: BSD-2-Clause */
/* Where in the code the locks of a snapshot are waited at: those waiting now, and the waits that
 * ended. */
#ifndef COLLECT_LOCK_STACKS_H
#define COLLECT_LOCK_STACKS_H

#include "collect/waiting.h"
#include "collect/wakes.h"

/* A thread that waits at the lock of that address. */
struct lock_waiter {
	rt_u32 pid;
	uint64_t address;
};

/* Both add to s->locks, which is filled. 0 or -errno. */
int lock_stacks__now(struct waiting *w, const struct lock_waiter *waiters, size_t cnt,
		     struct snapshot *s);
/* As wakes__fill; s->profiles are being filled. */
int lock_stacks__ended(const struct profiler *profiler, const struct named_stack *by_place,
		       uint32_t place_cnt, const uint32_t *refs, struct snapshot *s);

#endif
