/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How memory moves: samples at equal distances, at most SNAPSHOT_HISTORY of them. When they are
 * full every other one goes and the distance doubles: any time fits. Per call path the growth of
 * its live bytes is a straight line through the samples.
 */
#ifndef COLLECT_TREND_H
#define COLLECT_TREND_H

#include <stdbool.h>
#include <stdint.h>

#include "snapshot/memory.h"

struct trend;

/* A straight line: per second, and half the width of its 95 % interval. */
struct trend_line {
	double slope, error;
};

/* owner_cnt: call paths to be followed; 0: none. */
struct trend *trend__new(uint32_t owner_cnt);
void trend__free(struct trend *t);

/* Whether it is time for a sample, and when it will be. */
bool trend__due(const struct trend *t, uint64_t now_ns);
uint64_t trend__next_ns(const struct trend *t);
/* live: of each owner. It is copied. 0 or -ENOMEM. */
int trend__add(struct trend *t, uint64_t now_ns, uint64_t rss_bytes, int64_t live_bytes,
	       const int64_t *live);

void trend__history(const struct trend *t, struct snapshot_memory *out);
/* False: too few samples. */
bool trend__line(const struct trend *t, uint32_t owner, struct trend_line *out);

/* The line of values that were found in cnt slices of a time. */
void trend__rate(const double *values, unsigned int cnt, double slice_s, struct trend_line *out);

#endif
