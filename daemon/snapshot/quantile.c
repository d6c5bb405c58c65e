/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Quantiles of an exponential histogram. Within a bucket the values are taken as evenly spread,
 * which is off by at most the bucket's width (4.5 %); where the true minimum and maximum are
 * tighter than the bucket they win, so one call, or calls that all took the same, come out exact.
 */
#include "snapshot/snapshot.h"

#include <math.h>

double hist__upper_ns(uint32_t place)
{
	return exp2((double)place / (1u << RT_HIST_SCALE));
}

double hist__lower_ns(uint32_t place)
{
	return exp2(((double)place - 1) / (1u << RT_HIST_SCALE));
}

uint64_t hist__count(const struct snapshot_hist *h)
{
	uint64_t sum = h->zero_cnt;

	for (uint32_t i = 0; h->counts && i < h->cnt; i++)
		sum += h->counts[i];
	return sum;
}

static uint64_t count_at(const struct snapshot_hist *h, uint32_t place)
{
	return h->counts && place >= h->first && place - h->first < h->cnt
		       ? h->counts[place - h->first]
		       : 0;
}

/* Calls at a place, those of windows standing for as many as they do. */
static double weighed(const struct snapshot_fn *fn, uint32_t place, uint64_t count)
{
	double extra = fn->sampled ? fn->sampled->weight - 1 : 0;

	return (double)count +
	       (extra > 0 ? extra * (double)count_at(&fn->sampled->hist, place) : 0);
}

static double zeros(const struct snapshot_fn *fn)
{
	double extra = fn->sampled ? fn->sampled->weight - 1 : 0;

	return (double)fn->hist.zero_cnt +
	       (extra > 0 ? extra * (double)fn->sampled->hist.zero_cnt : 0);
}

/* rank is of 1..cnt; what it exceeds by rounding lies at the end of the last bucket. */
static double value_at(const struct snapshot_fn *fn, double rank)
{
	const struct snapshot_hist *h = &fn->hist;
	double low, high, part, below = zeros(fn), in = 0;
	uint32_t at = 0;

	if (rank <= below)
		return 0;
	for (uint32_t i = 0; h->counts && i < h->cnt; i++) {
		if (!h->counts[i])
			continue;
		below += in;
		at = h->first + i;
		in = weighed(fn, at, h->counts[i]);
		if (rank <= below + in)
			break;
	}
	if (in <= 0)
		return 0;
	low = hist__lower_ns(at);
	high = hist__upper_ns(at);
	part = (rank - below) / in;
	return low + (high - low) * (part < 1 ? part : 1);
}

static double weighed_count(const struct snapshot_fn *fn)
{
	const struct snapshot_hist *h = &fn->hist;
	double sum = zeros(fn);

	for (uint32_t i = 0; h->counts && i < h->cnt; i++)
		sum += weighed(fn, h->first + i, h->counts[i]);
	return sum;
}

uint64_t snapshot__quantile_ns(const struct snapshot_fn *fn, double q)
{
	double v;

	if (!hist__count(&fn->hist))
		return 0;
	v = value_at(fn, q * weighed_count(fn));
	if (v <= (double)fn->min_ns)
		return fn->min_ns;
	if (v >= (double)fn->max_ns)
		return fn->max_ns;
	return (uint64_t)llround(v);
}
