/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What threads wait at, and for how long: the locks of the snapshot. The memory of the target is
 * read of those that get a row.
 */
#ifndef COLLECT_LOCKS_H
#define COLLECT_LOCKS_H

#include "collect/lock_stacks.h"
#include "collect/lock_view.h"
#include "collect/roster.h"
#include "target/process.h"

struct locks;

/* Borrowed. NULL with errno. */
struct locks *locks__new(struct threads *threads, const struct roster *roster,
			 const struct target *target);
void locks__free(struct locks *l);

/* Whether the thread is blocked at a futex. */
bool locks__is_wait(const struct rt_thread *t);
/* What the programs could not see of a wait from before the window: it is one for a lock. */
bool locks__waits_for_lock(const struct locks *l, const struct rt_thread *t);
/* Opens the target's memory for a round of views, of threads that are. */
void locks__open(struct locks *l);
void locks__close(struct locks *l);
void locks__view(const struct locks *l, const struct rt_thread *waiter, struct lock_view *out);

/* Whether a wait at what the thread waits at has ended since it began to. */
bool locks__moved(const struct locks *l, const struct rt_thread *t);

/* Who waited at futexes when these were filled in, and at the lock of which address. */
const struct lock_waiter *locks__waiters(const struct locks *l, size_t *cnt);
/* Fills s->locks from the roster's last look. 0 or -ENOMEM. */
int locks__fill(struct locks *l, struct snapshot *s);

#endif
