/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interval is the score interval of a count: an estimate of n blocks that each stand for N
 * bytes is n N, give or take z sqrt(n + z^2/4) N around n N + z^2/2 N. Here n N^2 is what the
 * blocks give as the variance, and N the interval of the sample: no block that can be missing
 * stands for more. Without the z^2 terms (n N +- z sqrt(n) N) a path of which no block is in the
 * sample would be "0, exactly".
 */
#include "collect/estimate.h"

#include <math.h>

#define Z_95 1.96

void estimate__add(struct estimate *e, const struct blocksample *sample, uint64_t bytes)
{
	double weight = sample ? blocksample__weight(sample, bytes) : 1;
	double stands_for = weight * (double)bytes;

	e->bytes += stands_for;
	e->count += weight;
	e->variance += (1 - 1 / weight) * stands_for * stands_for;
	e->seen_bytes += (double)bytes;
	e->seen++;
}

void estimate__merge(struct estimate *e, const struct estimate *other)
{
	e->bytes += other->bytes;
	e->count += other->count;
	e->variance += other->variance;
	e->seen_bytes += other->seen_bytes;
	e->seen += other->seen;
}

double estimate__bytes(const struct estimate *e, double most)
{
	return e->bytes < most ? e->bytes : most;
}

double estimate__error(const struct estimate *e, const struct blocksample *sample, double most)
{
	double n = sample && sample->interval > 1 ? (double)sample->interval : 0;
	double error = Z_95 * Z_95 / 2 * n + Z_95 * sqrt(e->variance + Z_95 * Z_95 / 4 * n * n);
	double at = estimate__bytes(e, most);
	/* between what was seen and all that was handed out there is no doubt */
	double widest = fmax(at - e->seen_bytes, most - at);

	return error < widest ? error : widest;
}
