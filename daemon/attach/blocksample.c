/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/blocksample.h"

#include <math.h>

/* The middle of a class. */
static double class_bytes(rt_u32 class)
{
	rt_u32 octave = class / 8;

	return octave ? ldexp(8 + class % 8 + 0.5, (int)octave - 1) : class;
}

/* As if each byte were taken with the same small probability: the law of heap profilers. */
void blocksample__init(struct blocksample *s, uint64_t interval)
{
	s->interval = interval;
	for (rt_u32 class = 0; class < RT_SAMPLE_CLASSES; class ++) {
		double p = -expm1(-class_bytes(class) / (double)interval);
		double threshold = round(ldexp(p, 32));

		if (interval <= 1 || threshold >= (double)RT_SAMPLE_ALWAYS)
			s->thresholds[class] = RT_SAMPLE_ALWAYS;
		else /* one of 0 bytes is as likely as one of 1 */
			s->thresholds[class] = class ? (rt_u32)fmax(threshold, 1) : 0;
	}
	if (!s->thresholds[0])
		s->thresholds[0] = s->thresholds[1];
}

double blocksample__weight(const struct blocksample *s, uint64_t bytes)
{
	rt_u32 threshold = s->thresholds[rt_sample_class(bytes)];

	return threshold == RT_SAMPLE_ALWAYS ? 1 : ldexp(1, 32) / threshold;
}
