/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The breaker: when the probes' price exceeds the budget for two looks in a row (200 ms at one
 * look each 100 ms), the dearest functions are named for shedding, as few as bring the rest under
 * the budget. They do not come back.
 */
#ifndef ATTACH_BREAKER_H
#define ATTACH_BREAKER_H

#include <stdint.h>

#include "attach/object.h"
#include "plan/plan.h"

struct breaker;

#define BREAKER_INTERVAL_NS 100000000ull

/* budget: 0.02 = two percent of one CPU. */
struct breaker *breaker__new(const struct plan *plan, double budget);
void breaker__free(struct breaker *b);

/* Looks at the counters. Returns how many function ids it put into fns (room for all). */
size_t breaker__look(struct breaker *b, const struct object *obj, uint64_t now_ns, rt_u32 *fns);

/* What a function's hits so far have cost its process, ns; and how many they are. */
uint64_t breaker__cost_ns(const struct object *obj, const struct plan *plan, rt_u32 fn,
			  uint64_t *hits);

#endif
