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

/* What the hits of a function's counters cost its process, ns. */
uint64_t breaker__cost_ns(const struct object *obj, const struct plan_fn *fn, enum plan_exit exit,
			  const struct rt_fn_stats *st);

#endif
