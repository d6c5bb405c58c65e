/* SPDX-License-Identifier: BSD-2-Clause */
/* Who ended the waits of the off-CPU profile: pairs of stacks, those of equal names added up. */
#ifndef COLLECT_WAKES_H
#define COLLECT_WAKES_H

#include "attach/profiler.h"
#include "snapshot/profile.h"

/* A kept stack by its place, named: frames are refs[first .. first + cnt). cnt 0: there is none. */
struct named_stack {
	uint32_t first, cnt;
	const char *truncated;
};

/* For sorting; 0: the same frames. */
int named_stack__compare(const struct named_stack *x, const struct named_stack *y,
			 const uint32_t *refs);

/* by_place has place_cnt elements; of[PROFILE_OFF_CPU] of out is there. 0 or -errno. */
int wakes__fill(const struct profiler *profiler, const struct named_stack *by_place,
		uint32_t place_cnt, const uint32_t *refs, struct snapshot_profiles *out);

#endif
