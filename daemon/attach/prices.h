/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a probe costs, ns, twice: warm (in a loop, its path through the kernel in the nearest
 * caches) and cold (after the program has been about something else). Both are measured by
 * calibrate.h; a server is in between, nearer to cold the more it does from one probe to the next.
 */
#ifndef ATTACH_PRICES_H
#define ATTACH_PRICES_H

#include <stdint.h>

#include "roletrace/abi.h"

struct prices {
	rt_u64 entry_ns[RT_INSN_CLASSES], exit_ns[RT_INSN_CLASSES]; /* by class of instruction */
	rt_u64 uret_ns;						    /* exit by return probe */
	/* of an entry and a return probe what is not their program's; 0: not measured */
	rt_u64 trap_entry_ns, trap_uret_ns;
};

/*
 * How cold the caches are when a probe fires, 0..1: work_ns is what the process does by itself from
 * one probe to the next.
 */
double prices__coldness(double work_ns);
/* coldness: 0 is warm, 1 is cold. */
struct prices prices__between(const struct prices *warm, const struct prices *cold,
			      double coldness);

#endif
