/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/prices.h"

/*
 * With so much work between two probes half of the difference is there. Measured with work of 0 to
 * 90 us on 2 MB of data: real prices lie within a tenth of such a curve (docs/design/0005).
 */
#define HALF_COLD_NS 8000.0

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
