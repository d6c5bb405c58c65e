/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * glibc's pthread_rwlock_t on x86-64, from 2.25 on (sysdeps/x86/nptl/bits/struct_rwlock.h; the bits
 * are those of nptl/pthread_rwlock_common.c), and how it is told by what lies around the futex that
 * is waited at: both sides of the kernel have to.
 */
#ifndef ROLETRACE_PTHREAD_RWLOCK_H
#define ROLETRACE_PTHREAD_RWLOCK_H

#include "roletrace/abi.h"

struct rt_pthread_rwlock {
	rt_u32 readers; /* the state: their number above three bits */
	rt_u32 writers;
	rt_u32 phase_futex;
	rt_u32 turn_futex;
	rt_u32 zero[2];
	rt_s32 cur_writer; /* a tid */
	rt_u32 shared;
	rt_u64 elision; /* a byte */
	rt_u64 zero_too;
	rt_u32 flags;
	rt_u32 pad;
};
RT_ASSERT_SIZE(struct rt_pthread_rwlock, 56);

#define RT_RWLOCK_WRITE_PHASE 1u
#define RT_RWLOCK_WRITE_LOCKED 2u
#define RT_RWLOCK_READERS_WAIT 4u
#define RT_RWLOCK_FUTEX_USED 2u

/* What the futex of a waiter is in it. */
enum rt_rwlock_place {
	RT_RWLOCK_PHASE =
		8, /* readers wait for the end of the writers' phase, a writer for its begin */
	RT_RWLOCK_TURN = 12, /* other writers, for their turn */
	RT_RWLOCK_STATE = 0, /* where writers come first: readers, while readers have it */
};

/* Whether l can be one, where it is waited with that value at that place. */
static inline __attribute__((always_inline)) int
rt_is_pthread_rwlock(const struct rt_pthread_rwlock *l, enum rt_rwlock_place place, rt_u32 val)
{
	const rt_u32 phase = l->readers & RT_RWLOCK_WRITE_PHASE,
		     locked = l->readers & RT_RWLOCK_WRITE_LOCKED;

	if (l->zero[0] | l->zero[1] | (l->phase_futex | l->turn_futex) >> 2 | l->zero_too ||
	    l->elision > 255 || l->flags > 2 || l->shared > 1 || l->cur_writer < 0)
		return 0;
	switch (place) {
	case RT_RWLOCK_PHASE:
		return (val == (RT_RWLOCK_FUTEX_USED | 1) && phase) ||
		       (val == RT_RWLOCK_FUTEX_USED && locked && !phase);
	case RT_RWLOCK_TURN:
		return val == (RT_RWLOCK_FUTEX_USED | 1) && locked;
	default:
		return val >> 3 && val & RT_RWLOCK_READERS_WAIT && l->readers == val;
	}
}

#endif
