/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sample of blocks as the programs take it (roletrace/sample.h): how likely a size is in it,
 * and what a block in it stands for. Of `interval` bytes handed out about one block is taken.
 */
#ifndef ATTACH_BLOCKSAMPLE_H
#define ATTACH_BLOCKSAMPLE_H

#include <stdint.h>

#include "roletrace/sample.h"

#define BLOCKSAMPLE_MOST (1ull << 30) /* of interval */

struct blocksample {
	uint64_t interval; /* 1: every block */
	rt_u32 thresholds[RT_SAMPLE_CLASSES];
};

/* interval from 1 to BLOCKSAMPLE_MOST. */
void blocksample__init(struct blocksample *s, uint64_t interval);

/* How many blocks a sampled one of that size stands for: one over its probability. */
double blocksample__weight(const struct blocksample *s, uint64_t bytes);

#endif
