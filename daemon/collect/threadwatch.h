/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All that is known of threads: the roster, the locks, what hangs. The collector's only door to
 * them.
 */
#ifndef COLLECT_THREADWATCH_H
#define COLLECT_THREADWATCH_H

#include "attach/threads.h"
#include "collect/settle.h"
#include "snapshot/snapshot.h"

struct threadwatch;
struct waiting;

struct threadwatch_opts {
	uint64_t stall_ns;
	bool no_progress;	 /* tell too when no thread runs at all for that long */
	struct waiting *waiting; /* native stacks of who waits; NULL: none. Borrowed */
};

/* All borrowed. NULL with errno. */
struct threadwatch *threadwatch__new(struct threads *threads, const struct plan *plan,
				     const struct target *target, struct settler *settler,
				     const struct threadwatch_opts *opts);
void threadwatch__free(struct threadwatch *w);

void threadwatch__start(struct threadwatch *w, uint64_t now_ns);
void threadwatch__stop(struct threadwatch *w, uint64_t now_ns);

/*
 * Call about each fifth of a second. What has been found to hang since the last call: *cnt of
 * them, valid until the next.
 */
const struct snapshot_stall *threadwatch__tick(struct threadwatch *w, uint64_t now_ns, size_t *cnt);

/* Fills s->threads, s->locks, s->stalls; light: but no stacks of who waits at the locks. 0 or
 * -errno. */
int threadwatch__fill(struct threadwatch *w, struct snapshot *s, bool light);

/* What was missed so far, after a fill: at most THREADWATCH_LOST. How many there are. */
#define THREADWATCH_LOST (RT_THREAD_LOST_CNT + 1)
size_t threadwatch__lost(const struct threadwatch *w, struct snapshot_lost *out);

#endif
