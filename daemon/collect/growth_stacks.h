/* SPDX-License-Identifier: BSD-2-Clause */
/* Who made the process larger, by native stack, into the snapshot. */
#ifndef COLLECT_GROWTH_STACKS_H
#define COLLECT_GROWTH_STACKS_H

#include "attach/growth.h"
#include "collect/namer.h"
#include "snapshot/snapshot.h"

struct growth_ask {
	const struct growth *growth; /* that has stacks */
	struct namer *namer;
	bool final;		/* look for names though it is not due */
	uint64_t *learn_due_ns; /* as of namer__look */
};

/* s->memory and s->profiles are there. Before the totals are read: while it runs there is never
 * more in exact stacks than was counted. 0 or -ENOMEM. */
int growth_stacks__fill(const struct growth_ask *ask, struct snapshot *s);

#endif
