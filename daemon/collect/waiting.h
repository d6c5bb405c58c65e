/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where threads wait now, by name: looks when it is asked to, at those it is asked for. Names
 * frames; knows nothing of locks or of what hangs.
 */
#ifndef COLLECT_WAITING_H
#define COLLECT_WAITING_H

#include "attach/standing.h"
#include "collect/namer.h"
#include "snapshot/snapshot.h"

struct waiting;

/* All borrowed. names: of those stacks that standing was made with, or NULL when it makes its own.
 * NULL with errno. */
struct waiting *waiting__new(struct standing *standing, struct namer *names,
			     const struct plan *plan, const struct target *target,
			     const char *debug_file);
void waiting__free(struct waiting *w);

/* The stacks of these threads (pids of the outermost namespace). What is wrong is said. 0 or
 * -errno. */
int waiting__look(struct waiting *w, const rt_u32 *pids, size_t cnt);
/* Of the last look, as it stood. NULL: there was no such thread. */
const struct standing_thread *waiting__thread(const struct waiting *w, rt_u32 pid);
/* Names for frames of it, behind a look. frames is sorted by it. 0 or -ENOMEM. */
int waiting__learn(struct waiting *w, uint64_t *frames, size_t cnt);
const struct named *waiting__named(const struct waiting *w, uint64_t frame); /* NULL: not learned */
/* Whether looking is cheap: its programs and tables are there. */
bool waiting__is_ready(const struct waiting *w);

/*
 * Of the last look. *out's frames are one block, to be freed; what they say belongs to w. A thread
 * that did not stand still has none and says so; one that was not asked for has nothing at all.
 * 0 or -ENOMEM.
 */
int waiting__stack(const struct waiting *w, rt_u32 pid, struct snapshot_backtrace *out);

/* A copy with all it says, in the snapshot's arena. 0 or -ENOMEM. */
int backtrace__copy(const struct snapshot_backtrace *from, struct snapshot *s,
		    struct snapshot_backtrace *out);

#endif
