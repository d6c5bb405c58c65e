/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of the collector share: collect.c has its life and puts a snapshot together,
 * functions.c makes the rows of functions and edges, health.c says what is missing from them.
 */
#ifndef COLLECT_COLLECTOR_H
#define COLLECT_COLLECTOR_H

#include "collect/collect.h"
#include "collect/overhead.h"
#include "snapshot/snapshot.h"

struct collector {
	const struct plan *plan;
	const struct target *target;
	struct tracer *tracer;
	struct object *obj;
	struct settler *settler;
	struct overhead overhead;
	struct threadwatch *watch;	       /* NULL: threads are not watched */
	struct namer *namer;		       /* NULL: nothing has native stacks */
	struct profile_reader *profile_reader; /* NULL: no profiles */
	struct waiting *waiting;	       /* NULL: no native stacks of who waits */
	bool light;
	struct memory_collector *memory;
	struct collector_opts opts;
	uint64_t start_unix_ns, start_mono_ns, end_unix_ns, end_mono_ns; /* end 0: running */
	enum snapshot_end end;
	int end_code;
	uint64_t target_end_unix_ns;
};

/* Edges before functions: a call is booked before its edge, so none shows more than its callee.
 * All give 0 or -ENOMEM. */
int functions__edges(const struct collector *c, struct snapshot *s);
int functions__fill(const struct collector *c, struct snapshot *s);
/* At the end, when nobody looks for rows by their place in the plan. */
int functions__drop_refused(const struct collector *c, struct snapshot *s);

/* lost, skipped, shed and the reasons of health; behind what they are about. */
int health__fill(const struct collector *c, struct snapshot *s);

#endif
