/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What hangs: deadlocks, waits for locks that nobody gives up, workers of a runtime that are stuck
 * inside a poll. Looked for while it hangs, told once.
 */
#ifndef COLLECT_STALLS_H
#define COLLECT_STALLS_H

#include "collect/locks.h"
#include "collect/roster.h"
#include "collect/settle.h"
#include "collect/waiting.h"
#include "collect/workers.h"

struct stalls;

struct stalls_opts {
	uint64_t stall_ns;
	bool no_progress; /* tell too when no thread runs at all for that long */
};

/* All borrowed. NULL with errno. */
struct stalls *stalls__new(const struct roster *roster, struct locks *locks,
			   struct settler *settler, const struct workers *workers,
			   const struct plan *plan, const struct target *target,
			   const struct stalls_opts *opts);
void stalls__free(struct stalls *s);

/* Whether the last pass has a poll to be told of that no witness has seen (witness.h). */
bool stalls__has_unsettled(const struct stalls *s);
/* Looks at the roster's last look and the settler's last pass. */
void stalls__find(struct stalls *s);
/* What is told of, with its stacks: for a look at them there have to be the pids of threads (at
 * most `most`; how many there are), then see them, behind another look of the roster. */
size_t stalls__unseen(const struct stalls *s, rt_u32 *pids, size_t most);
int stalls__see(struct stalls *s, const struct waiting *w);
/* The new ones: cnt of them. */
const struct snapshot_stall *stalls__fresh(struct stalls *s, size_t *cnt);

/* Fills snapshot->stalls. 0 or -ENOMEM. */
int stalls__fill(const struct stalls *s, struct snapshot *snapshot);

#endif
