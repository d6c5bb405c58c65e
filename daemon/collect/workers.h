/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a thread of a runtime that has waited for long is an idle worker, one that blocks inside
 * a poll, or a thread that may block: by its native stack, taken once for each such wait.
 */
#ifndef COLLECT_WORKERS_H
#define COLLECT_WORKERS_H

#include "collect/locks.h"
#include "collect/roster.h"
#include "collect/waiting.h"

struct workers;

enum worker_verdict {
	WORKER_NOT_SEEN, /* it waits as idle workers do, or not for long, or nobody has looked */
	WORKER_FREE,	 /* idle, or not a worker */
	WORKER_IN_POLL,
	WORKER_UNCLEAR, /* there is no stack, or it has no names */
};

/* All borrowed. NULL with errno. */
struct workers *workers__new(const struct roster *roster, struct locks *locks, uint64_t stall_ns);
void workers__free(struct workers *w);

/*
 * Of the roster's last look, those to be looked at: their pids, at most `most`; how many. cheap: a
 * look costs little, so those too that wait where an idle worker does. The locks are open.
 */
size_t workers__unseen(struct workers *w, bool cheap, rt_u32 *pids, size_t most);
/* Behind a look at them, and another look of the roster. waiting NULL: there are no stacks. */
void workers__see(struct workers *w, const struct waiting *waiting, const rt_u32 *pids, size_t cnt);

enum worker_verdict workers__verdict(const struct workers *w, const struct rt_thread *t);

/* What a stack says. Exported for tests. */
enum worker_verdict workers__judge(const struct snapshot_backtrace *b);

#endif
