/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Durations of one kind: figures and their exponential histogram. Knows nothing of what was timed.
 */
#ifndef SNAPSHOT_STATS_H
#define SNAPSHOT_STATS_H

#include <stdint.h>

/* counts[place], place as in hist.h: bucket + 1. NULL counts: empty. */
struct snapshot_hist {
	uint64_t zero_cnt;
	uint32_t first, cnt; /* counts[0] is place `first`; cnt places */
	uint64_t *counts;    /* owned */
};

struct snapshot_stats {
	uint64_t count, total_ns, min_ns, max_ns;
	uint64_t hist_lost; /* of count, in no bucket */
	struct snapshot_hist hist;
};

uint64_t hist__count(const struct snapshot_hist *h);
/* Bounds of the bucket at a place, ns (lower is exclusive). Place 0 is (2^(-1/16), 1]. */
double hist__lower_ns(uint32_t place);
double hist__upper_ns(uint32_t place);
/*
 * The q-quantile (0..1) in ns: linear within its bucket, clipped to [min, max]. 0 when empty.
 */
uint64_t hist__quantile_ns(const struct snapshot_hist *h, uint64_t min_ns, uint64_t max_ns,
			   double q);
/* Makes one of all places, cnt of them. 0 or -ENOMEM. */
int hist__from_places(const uint64_t *places, uint32_t cnt, struct snapshot_hist *out);
/* What was added since prev. 0 or -ENOMEM. */
int hist__delta(const struct snapshot_hist *now, const struct snapshot_hist *prev,
		struct snapshot_hist *out);

#endif
