/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The profiler's stacks as the snapshot has them: named, equal ones added up, roots first.
 */
#ifndef COLLECT_PROFILE_H
#define COLLECT_PROFILE_H

#include "attach/profiler.h"
#include "attach/stacks.h"
#include "collect/namer.h"
#include "snapshot/snapshot.h"

struct namer;
struct profile_reader;

/* All borrowed. NULL with errno. */
struct profile_reader *profile_reader__new(struct profiler *profiler, const struct stacks *stacks,
					   struct namer *namer);
void profile_reader__free(struct profile_reader *r);

/*
 * Fills in s->profiles, which is there. Names are looked for when that is due or `final`; until
 * then new frames go by their places. now_ns: of CLOCK_MONOTONIC, the end of waits that go on. 0 or
 * -errno.
 */
int profile_reader__fill(struct profile_reader *r, struct snapshot *s, uint64_t now_ns, bool final);
/* To follow, once s->fns has its last shape: rows of functions that were sampled and not probed. */
int profile_reader__add_rows(struct profile_reader *r, struct snapshot *s);

#endif
