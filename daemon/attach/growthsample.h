/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many of the events that make the process larger have a native stack: one for so many bytes
 * (roletrace/growth.h). The programs take fewer as soon as these take longer than they may; here
 * it is seen to that they become more again, and noted how few they were. Knows no programs.
 */
#ifndef ATTACH_GROWTHSAMPLE_H
#define ATTACH_GROWTHSAMPLE_H

#include <stdint.h>

struct growthsample {
	uint32_t base;	    /* what was asked for: an interval of 2^base bytes */
	uint32_t low, high; /* what there was so far, likewise */
	unsigned int calm;  /* looks in a row */
};

/* interval from 1 to 2^RT_GROWTH_MOST_SHIFT, rounded down to a power of two. */
void growthsample__init(struct growthsample *s, uint64_t interval);
/* Now it is 2^shift, and stacks took so much of the quota since the last look. What it is to be. */
uint32_t growthsample__look(struct growthsample *s, uint32_t shift, double of_quota);
void growthsample__note(struct growthsample *s, uint32_t shift);
/* Bytes of an interval; 1: each event is in the sample, for none is smaller than a page. */
uint64_t growthsample__bytes(uint32_t shift);

#endif
