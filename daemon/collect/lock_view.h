/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Futexes told apart, by how they are waited at and by what lies in the target's memory there, and
 * who holds them where that is stored.
 */
#ifndef COLLECT_LOCK_VIEW_H
#define COLLECT_LOCK_VIEW_H

#include "collect/roster.h"

/* What is looked through. */
struct lock_eye {
	const struct roster *roster;
	int mem; /* the target's memory; < 0: nothing can be read */
};

/* A futex as it is now. */
struct lock_view {
	enum lock_kind kind;
	uint64_t address; /* of the lock: not always that of the futex */
	rt_u32 holder;	  /* its tid in the target's namespace; 0: not stored, or nobody */
	bool held;	  /* memory says that it is locked and waited for */
};
void lock_view__thread(const struct lock_eye *eye, const struct rt_thread *waiter,
		       struct lock_view *out);
/* Of waits that have ended. */
void lock_view__futex(const struct lock_eye *eye, const struct rt_futex *f, struct lock_view *out);
/* A thread that waits at a futex since before the window: at a mutex or a read-write lock. */
bool lock_view__waits_for_lock(const struct lock_eye *eye, const struct rt_thread *t);

#endif
