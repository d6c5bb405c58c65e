/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The draw for a sample (roletrace/sample.h). */
#ifndef SAMPLED_BPF_H
#define SAMPLED_BPF_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "roletrace/sample.h"

/* The threshold, when what has it is in the sample; else 0. */
static __always_inline rt_u32 draw(rt_u32 threshold)
{
	if (threshold == RT_SAMPLE_ALWAYS)
		return threshold;
	return threshold && bpf_get_prandom_u32() < threshold ? threshold : 0;
}

#endif
