/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tracing costs the target, all parts of it, and what roletrace itself uses:
 * snapshot.overhead.
 */
#ifndef COLLECT_OVERHEAD_H
#define COLLECT_OVERHEAD_H

#include <stdbool.h>
#include <time.h>

#include "attach/prices.h"
#include "attach/profiler.h"
#include "attach/threads.h"
#include "attach/tracer.h"
#include "plan/plan.h"
#include "snapshot/snapshot.h"
#include "target/process.h"

/* What there is of it; all borrowed. */
struct overhead {
	const struct target *target;
	const struct plan *plan;
	struct tracer *tracer;
	const struct threads *threads;	 /* NULL: not watched */
	const struct profiler *profiler; /* NULL: no profiles */
	bool has_clock;			 /* of the process' CPU time */
	clockid_t clock;
	uint64_t begin_cpu_ns, cpu_ns;	 /* of the process; 0: not known */
	uint64_t begin_ns, looked_ns;	 /* when that was */
	uint64_t begin_tool_ns, tool_ns; /* CPU of this process and its children that have ended */
};

void overhead__start(struct overhead *o);
/* Looks at the process's CPU time and at ours; call it now and then, for the process cannot be
 * asked once it is gone. */
void overhead__look(struct overhead *o);

/* Prices as they are between the probes that the process has met so far. */
struct prices overhead__prices(const struct overhead *o);
/* functions_ns: what the probes of functions cost at those prices; their hits are in s. */
void overhead__fill(const struct overhead *o, const struct prices *p, uint64_t functions_ns,
		    struct snapshot *s);

#endif
