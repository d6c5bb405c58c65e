/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory into the snapshot: the allocators' counters, the live blocks by call path, what the kernel
 * says of the process, how all that moves. Samples by itself between snapshots.
 */
#ifndef COLLECT_MEMORY_H
#define COLLECT_MEMORY_H

#include "attach/tracer.h"
#include "collect/namer.h"
#include "plan/plan.h"
#include "snapshot/snapshot.h"
#include "target/process.h"

struct memory_collector;

struct memory_collector_opts {
	double leak_after_s;
	const struct stacks *stacks; /* where blocks' native stacks are kept, and who names them; */
	struct namer *namer;	     /* NULL: there are none */
};

/* All borrowed, but opts. */
struct memory_collector *memory_collector__new(const struct plan *plan, const struct target *target,
					       struct tracer *tracer,
					       const struct memory_collector_opts *opts);
void memory_collector__free(struct memory_collector *c);

void memory_collector__start(struct memory_collector *c);
/* Takes a sample when it is time; cheap otherwise. */
void memory_collector__tick(struct memory_collector *c, uint64_t now_ns);
/* When the next sample is due. */
uint64_t memory_collector__next_ns(const struct memory_collector *c);
/*
 * Fills in s->memory, s->alloc_stacks and the functions' alloc; s->fns must be there. Native stacks
 * too when s->profiles is there, for their frames.
 */
int memory_collector__fill(struct memory_collector *c, struct snapshot *s);

#endif
