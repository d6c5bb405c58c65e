/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether armed sites are in the target's memory: the breakpoint byte, read through its own
 * address space. A debugger that removes its breakpoint at one of our addresses takes ours with
 * it, and on an overlay file system probes may sit on a file that is not the one mapped.
 */
#ifndef ATTACH_VERIFY_H
#define ATTACH_VERIFY_H

#include <stdbool.h>
#include <stddef.h>

#include "plan/plan.h"
#include "target/process.h"

struct verify_result {
	size_t armed;
	size_t disarmed; /* mapped, and no breakpoint there */
	size_t unmapped; /* not mapped now */
	rt_u32 first_fn; /* function of the first disarmed site */
	/* The caller's, zeroed, or NULL: */
	bool *unreached; /* by object: sites were looked at, and not one is armed (or mapped) */
	bool *gaps;	 /* by function: a site of it is disarmed */
};

/* Looks at the sites of functions with skip[fn] false. -errno when memory cannot be read. */
int verify__sites(const struct target *t, const struct plan *plan, const bool *skip,
		  struct verify_result *out);

#endif
