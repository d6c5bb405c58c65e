/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the call paths' verdicts come to, and whether enough was seen to say so: "no leak" of a
 * process that was hardly looked at would be wrong.
 */
#ifndef COLLECT_LEAKS_H
#define COLLECT_LEAKS_H

#include "snapshot/snapshot.h"

struct leaks_seen {
	uint64_t watched_ns; /* how long blocks were seen to come and go */
	bool shed;	     /* then the allocator's probes were taken away */
};

/* Fills s->memory->leaks and leaks_why, when all of the memory and the paths is filled. 0 or
 * -ENOMEM. */
int leaks__fill(const struct leaks_seen *seen, struct snapshot *s);

#endif
