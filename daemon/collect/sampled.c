/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/sampled.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static int fill_hist(const struct clusters *c, struct snapshot_hist *out)
{
	out->zero_cnt = clusters__zeros(c);
	out->counts = calloc(RT_HIST_BUCKETS, sizeof(*out->counts));
	if (!out->counts)
		return -ENOMEM;
	out->cnt = RT_HIST_BUCKETS;
	for (size_t p = 0; p < RT_HIST_BUCKETS; p++)
		out->counts[p] = clusters__at(c, p);
	return 0;
}

/* The function's calls that were timed outside of windows. */
static void exact_part(const struct snapshot_fn *fn, const struct clusters *c,
		       uint64_t counts[RT_HIST_BUCKETS], uint64_t *zeros)
{
	const struct snapshot_hist *h = &fn->hist;

	for (uint32_t p = 0; p < RT_HIST_BUCKETS; p++) {
		uint64_t all = h->counts && p >= h->first && p - h->first < h->cnt
				       ? h->counts[p - h->first]
				       : 0;

		counts[p] = all > clusters__at(c, p) ? all - clusters__at(c, p) : 0;
	}
	*zeros = h->zero_cnt > clusters__zeros(c) ? h->zero_cnt - clusters__zeros(c) : 0;
}

static void fill_intervals(const struct clusters *c, const struct snapshot_fn *fn,
			   struct snapshot_sampled *out)
{
	uint64_t counts[RT_HIST_BUCKETS], zeros;
	long low, high;

	exact_part(fn, c, counts, &zeros);
	for (int i = 0; i < SNAPSHOT_QUANTILES; i++) {
		struct snapshot_interval *to = &out->quantiles[i];

		if (clusters__interval(c, counts, zeros, out->weight, snapshot_quantiles[i], &low,
				       &high))
			return;
		to->low_ns = low < 0 ? 0 : (uint64_t)hist__lower_ns((uint32_t)low);
		to->high_ns = high < 0 ? 1
			      : high >= (long)RT_HIST_BUCKETS
				      ? UINT64_MAX
				      : (uint64_t)ceil(hist__upper_ns((uint32_t)high));
	}
}

static const char *count_kind(const struct governor_row *row)
{
	if (row->always_counted)
		return "exact";
	return row->lower_bound ? "lower-bound" : "estimated";
}

int sampled__fill(const struct governor_row *row, struct snapshot_fn *fn)
{
	struct snapshot_sampled *out = calloc(1, sizeof(*out));
	const struct clusters *c = row->clusters;

	if (!out)
		return -ENOMEM;
	fn->sampled = out;
	out->mode = governor_mode_names[row->mode];
	out->count = count_kind(row);
	out->counted_ns = row->counted_ns;
	out->calls_estimated = row->estimated_calls > (double)fn->calls
				       ? (uint64_t)row->estimated_calls
				       : fn->calls;
	out->weight = 1;
	fn->coverage = row->timed_ns ? COVERAGE_SAMPLED : COVERAGE_ENTRY_ONLY;
	fn->observed_ns = row->timed_ns ? row->timed_ns : row->counted_ns;
	if (!c)
		return 0;
	out->windows = clusters__windows(c);
	out->given_up = clusters__open(c);
	if (clusters__calls(c))
		out->weight = (double)row->sampled_calls / (double)clusters__calls(c);
	if (out->weight < 1)
		out->weight = 1;
	fill_intervals(c, fn, out);
	return fill_hist(c, &out->hist);
}
