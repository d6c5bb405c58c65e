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

static uint64_t count_at(const struct snapshot_hist *h, uint32_t place)
{
	return h->counts && place >= h->first && place - h->first < h->cnt
		       ? h->counts[place - h->first]
		       : 0;
}

/* A histogram in which calls of windows (sampled, NULL: none) stand for as many as they do. */
struct weighed {
	const struct snapshot_hist *h;
	const struct snapshot_sampled *sampled;
};

static double weigh(const struct weighed *w, uint64_t count, uint64_t of_windows)
{
	double extra = w->sampled ? w->sampled->weight - 1 : 0;

	return (double)count + (extra > 0 ? extra * (double)of_windows : 0);
}

static double zeros(const struct weighed *w)
{
	return weigh(w, w->h->zero_cnt, w->sampled ? w->sampled->hist.zero_cnt : 0);
}

static double in_bucket(const struct weighed *w, uint32_t i)
{
	uint32_t place = w->h->first + i;

	return weigh(w, w->h->counts[i], w->sampled ? count_at(&w->sampled->hist, place) : 0);
}

static double weighed_count(const struct weighed *w)
{
	double sum = zeros(w);

	for (uint32_t i = 0; w->h->counts && i < w->h->cnt; i++)
		sum += in_bucket(w, i);
	return sum;
}

/* rank is of 1..cnt; what it exceeds by rounding lies at the end of the last bucket. */
static double value_at(const struct weighed *w, double rank)
{
	const struct snapshot_hist *h = w->h;
	double low, high, part, below = zeros(w), in = 0;
	uint32_t at = 0;

	if (rank <= below)
		return 0;
	for (uint32_t i = 0; h->counts && i < h->cnt; i++) {
		if (!h->counts[i])
			continue;
		below += in;
		at = h->first + i;
		in = in_bucket(w, i);
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

static uint64_t quantile(const struct weighed *w, uint64_t min_ns, uint64_t max_ns, double q)
{
	double v;

	if (!hist__count(w->h))
		return 0;
	v = value_at(w, q * weighed_count(w));
	if (v <= (double)min_ns)
		return min_ns;
	if (v >= (double)max_ns)
		return max_ns;
	return (uint64_t)llround(v);
}

uint64_t hist__quantile_ns(const struct snapshot_hist *h, uint64_t min_ns, uint64_t max_ns,
			   double q)
{
	return quantile(&(struct weighed){ .h = h }, min_ns, max_ns, q);
}

uint64_t snapshot__quantile_ns(const struct snapshot_fn *fn, double q)
{
	return quantile(&(struct weighed){ &fn->hist, fn->sampled }, fn->min_ns, fn->max_ns, q);
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
