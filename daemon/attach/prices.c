/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/prices.h"

/* With so much work between two probes half of what they had in the caches is gone: 32 KB of code and
 * as much data take 4-6 us to walk over, and then all is. */
#define HALF_COLD_NS 1500.0

double prices__coldness(double work_ns)
{
	return work_ns > 0 ? work_ns / (work_ns + HALF_COLD_NS) : 0;
}

static rt_u64 between(rt_u64 warm, rt_u64 cold, double coldness)
{
	return (rt_u64)((double)warm + ((double)cold - (double)warm) * coldness);
}

struct prices prices__between(const struct prices *warm, const struct prices *cold, double coldness)
{
	struct prices p = {
		.uret_ns = between(warm->uret_ns, cold->uret_ns, coldness),
		.trap_entry_ns = between(warm->trap_entry_ns, cold->trap_entry_ns, coldness),
		.trap_uret_ns = between(warm->trap_uret_ns, cold->trap_uret_ns, coldness),
	};

	for (int c = 0; c < RT_INSN_CLASSES; c++) {
		p.entry_ns[c] = between(warm->entry_ns[c], cold->entry_ns[c], coldness);
		p.exit_ns[c] = between(warm->exit_ns[c], cold->exit_ns[c], coldness);
	}
	return p;
}
