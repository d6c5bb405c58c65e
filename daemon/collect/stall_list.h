/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is known to hang: told once, kept up to date, bounded. Knows how to describe a thread, not
 * how to find one that hangs.
 */
#ifndef COLLECT_STALL_LIST_H
#define COLLECT_STALL_LIST_H

#include "collect/locks.h"
#include "collect/roster.h"
#include "collect/settle.h"
#include "collect/waiting.h"

#define MAX_STALLS 32
#define MAX_STALL_IDS 256

/* What tells a wait from others. */
struct wait_id {
	rt_u32 pid;
	rt_u64 since_ns;
};

struct known_stall {
	struct snapshot_stall told;
	struct wait_id
		ids[MAX_STALL_IDS]; /* of its threads, also of those that told has no room for */
	size_t id_cnt;
	bool by_call;		  /* ids[0] is of a call, not of a wait */
	bool fresh;		  /* to be told */
	bool ended;		  /* its end is to be told */
	bool seen[STALL_THREADS]; /* by told.threads: their stacks were asked for */
};

struct stall_list {
	const struct roster *roster;
	struct locks *locks; /* open when threads are added */
	struct settler *settler;
	const struct plan *plan;
	const struct target *target;
	struct known_stall known[MAX_STALLS];
	size_t known_cnt, dropped;
	bool full; /* so many hang at once that more are not told */
	struct snapshot_stall fresh[MAX_STALLS];
};

/* Whether a stall that goes on tells of this wait: one of that kind, or a deadlock. */
bool stall_list__knows(const struct stall_list *l, enum stall_kind kind, const struct rt_thread *t);
/* NULL: no room. */
struct known_stall *stall_list__add(struct stall_list *l, enum stall_kind kind, bool proven);
void stall_list__add_thread(const struct stall_list *l, struct known_stall *k,
			    const struct rt_thread *t);
void stall_list__tell(struct stall_list *l, struct known_stall *k);
/* A victim of what is told already is added there: true. */
bool stall_list__join(struct stall_list *l, const struct rt_thread *t);
/* Notes what is over. */
void stall_list__refresh(struct stall_list *l);

/* Threads of which no stack has been asked for: their pids, at most `most`. How many there are. */
size_t stall_list__unseen(const struct stall_list *l, rt_u32 *pids, size_t most);
/* They get the stacks of w's last look; of one that waits no longer as it did, none. 0 or -ENOMEM.
 */
int stall_list__see(struct stall_list *l, const struct waiting *w);
/* Those to be told, or whose end is, as they are now: *cnt, valid until the next call. */
const struct snapshot_stall *stall_list__fresh(struct stall_list *l, size_t *cnt);
void stall_list__free(struct stall_list *l);

#endif
