/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who allocated, by native stack: the kept stacks of sampled blocks, named, those that read the
 * same added up, with what is live of each.
 */
#ifndef COLLECT_NATIVE_H
#define COLLECT_NATIVE_H

#include "attach/stacks.h"
#include "collect/namer.h"
#include "collect/survivors.h"
#include "snapshot/snapshot.h"

struct native_ask {
	const struct memory *memory;
	const struct stacks *stacks;
	struct namer *namer;
	const struct survivors *survivors; /* as of a look just now */
	uint64_t now_ns;
	bool final;		/* look for names though it is not due */
	uint64_t *learn_due_ns; /* as of namer__look */
	/* by call path: its place in alloc_stacks, or SNAPSHOT_NO_STACK */
	const uint32_t *stack_of_path;
};

/* Fills in s->memory->native; s->profiles is there. 0 or -ENOMEM. */
int native__fill(const struct native_ask *ask, struct snapshot *s);

#endif
