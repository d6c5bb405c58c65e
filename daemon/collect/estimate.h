/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is live, from the live blocks of the sample: each stands for one over its probability of
 * them, which is right on average (Horvitz and Thompson); the error comes from the same blocks.
 * With no sample (NULL) a block stands for itself.
 */
#ifndef COLLECT_ESTIMATE_H
#define COLLECT_ESTIMATE_H

#include <stdint.h>

#include "attach/blocksample.h"

struct estimate {
	double bytes, count; /* estimated */
	double variance;     /* of bytes */
	double seen_bytes;   /* of the blocks themselves: there are at least that many */
	uint64_t seen;	     /* blocks */
};

void estimate__add(struct estimate *e, const struct blocksample *sample, uint64_t bytes);
void estimate__merge(struct estimate *e, const struct estimate *other);

/*
 * Half the width of the interval around e->bytes that holds the truth in at least 95 of 100 cases,
 * few or no blocks included. most: that many bytes there are at most.
 */
double estimate__error(const struct estimate *e, const struct blocksample *sample, double most);
/* The estimate, within what is certain. */
double estimate__bytes(const struct estimate *e, double most);

#endif
