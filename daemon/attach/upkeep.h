/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is no probe takes of the budget too: the watch of threads, profiles, memory growth. What
 * they take is not there for probes; should they alone be over, what can be dropped is, else it is
 * said.
 */
#ifndef ATTACH_UPKEEP_H
#define ATTACH_UPKEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "attach/profiler.h"
#include "attach/threads.h"
#include "attach/tracer.h"

struct upkeep {
	struct tracer *tracer;
	const struct threads *threads; /* NULL: not watched */
	struct profiler *profiler;     /* NULL: no profiles */
	double budget;		       /* of a CPU; < 0: none, and nothing is ever done */
	/* of the last look */
	uint64_t look_ns, spent_ns;
	unsigned int over; /* looks in a row */
	bool calm;	   /* far below the budget: looks can wait */
	bool said;
};

/* Call it about each tenth of a second, once the window has begun. */
void upkeep__tick(struct upkeep *u, uint64_t now_ns);

#endif
