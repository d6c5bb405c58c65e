/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Quantiles of an exponential histogram. Within a bucket the values are taken as evenly spread,
 * which is off by at most the bucket's width (4.5 %); where the true minimum and maximum are
 * tighter than the bucket they win, so one call, or calls that all took the same, come out exact.
 */
#include "snapshot/snapshot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* rank is of 1..cnt; what it exceeds by rounding lies at the end of the last bucket. */
static double value_at(const struct snapshot_hist *h, double rank)
{
	uint64_t below = h->zero_cnt, in = 0;
	uint32_t at = 0;
	double low, high, part;

	if (rank <= (double)below)
		return 0;
	for (uint32_t i = 0; h->counts && i < h->cnt; i++) {
		if (!h->counts[i])
			continue;
		below += in;
		in = h->counts[i];
		at = h->first + i;
		if (rank <= (double)(below + in))
			break;
	}
	if (!in)
		return 0;
	low = hist__lower_ns(at);
	high = hist__upper_ns(at);
	part = (rank - (double)below) / (double)in;
	return low + (high - low) * (part < 1 ? part : 1);
}

uint64_t hist__quantile_ns(const struct snapshot_hist *h, uint64_t min_ns, uint64_t max_ns,
			   double q)
{
	uint64_t cnt = hist__count(h);
	double v;

	if (!cnt)
		return 0;
	v = value_at(h, q * (double)cnt);
	if (v <= (double)min_ns)
		return min_ns;
	if (v >= (double)max_ns)
		return max_ns;
	return (uint64_t)llround(v);
}

uint64_t snapshot__quantile_ns(const struct snapshot_fn *fn, double q)
{
	return hist__quantile_ns(&fn->hist, fn->min_ns, fn->max_ns, q);
}

int hist__from_places(const uint64_t *places, uint32_t cnt, struct snapshot_hist *out)
{
	uint32_t first = 0, end = cnt;

	while (end && !places[end - 1])
		end--;
	while (first < end && !places[first])
		first++;
	if (first == end)
		return 0;
	out->counts = malloc((end - first) * sizeof(*out->counts));
	if (!out->counts)
		return -ENOMEM;
	memcpy(out->counts, places + first, (end - first) * sizeof(*out->counts));
	out->first = first;
	out->cnt = end - first;
	return 0;
}
