/* SPDX-License-Identifier: BSD-2-Clause */
/* For long walks over many small things: whether the time is up, without asking at each of them. */
#ifndef BASE_DEADLINE_H
#define BASE_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define DEADLINE_STEPS 256 /* between looks at the clock */

struct deadline {
	uint64_t at_ns; /* CLOCK_MONOTONIC */
	unsigned int steps;
	bool passed;
};

static inline struct deadline deadline__in(uint64_t ns)
{
	return (struct deadline){ .at_ns = clock__mono_ns() + ns };
}

static inline bool deadline__passed(struct deadline *d)
{
	if (!d->passed && d->steps++ % DEADLINE_STEPS == 0)
		d->passed = clock__mono_ns() >= d->at_ns;
	return d->passed;
}

#endif
