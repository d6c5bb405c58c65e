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

static uint64_t rounded(double v)
{
	return v < 0x1p63 ? (uint64_t)(v > 0 ? v + 0.5 : 0) : UINT64_MAX;
}

static void fill_calls(const struct governor_row *row, const struct snapshot_fn *fn,
		       struct snapshot_sampled *out)
{
	out->count = row->always_counted ? BASIS_EXACT
		     : row->lower_bound	 ? BASIS_LOWER_BOUND
					 : BASIS_ESTIMATED;
	out->calls.value = rounded(row->estimated_calls);
	out->calls.low = rounded(row->low_calls);
	out->calls.high = row->always_counted ? fn->calls : rounded(row->high_calls);
	/* the row was read a moment earlier than the governor's books */
	if (row->always_counted || out->calls.value < fn->calls)
		out->calls.value = fn->calls;
	if (row->always_counted || out->calls.low < fn->calls)
		out->calls.low = fn->calls;
	if (out->calls.high < out->calls.value)
		out->calls.high = out->calls.value;
	out->exact_calls = row->exact_calls < fn->calls ? row->exact_calls : fn->calls;
}

/* A time of the function: what of it is not of windows is known, calls of windows stand for more.
 */
static void fill_time(const struct governor_row *row, uint64_t seen_ns, int which,
		      struct snapshot_sampled *out)
{
	const struct ratio *per_call = &row->per_call[which];
	uint64_t windows_ns = row->windows_ns[which], rest;
	double exact = seen_ns > windows_ns ? (double)(seen_ns - windows_ns) : 0, low, high;
	struct snapshot_estimate *to = &out->times[which];
	double of_windows = (double)windows_ns;

	rest = out->calls.value - out->exact_calls;
	out->windows_ns[which] = windows_ns < seen_ns ? windows_ns : seen_ns;
	out->per_call_ns[which] = ratio__value(per_call);
	*to = (struct snapshot_estimate){ seen_ns, seen_ns, rest ? UINT64_MAX : seen_ns };
	if (!rest || !per_call->windows)
		return;
	to->value = rounded(exact + fmax((double)rest * ratio__value(per_call), of_windows));
	if (ratio__interval(per_call, 0, &low, &high))
		return;
	rest = out->calls.low - out->exact_calls;
	to->low = rounded(exact + fmax((double)rest * low, of_windows));
	if (out->calls.high == UINT64_MAX || out->given_up)
		return;
	rest = out->calls.high - out->exact_calls;
	to->high = rounded(exact + fmax((double)rest * high, of_windows));
}

static void fill_times(const struct governor_row *row, const struct snapshot_fn *fn,
		       struct snapshot_sampled *out)
{
	bool more = out->calls.value > out->exact_calls;

	fill_time(row, fn->sum_ns, TIME_SUM, out);
	fill_time(row, fn->total_ns, TIME_TOTAL, out);
	fill_time(row, fn->self_ns, TIME_SELF, out);
	/* calls not seen to end took longer than they were waited for */
	out->time = !more ? BASIS_EXACT : BASIS_ESTIMATED;
	if (more &&
	    (row->per_call[TIME_SUM].m <= 0 || out->given_up || out->count == BASIS_LOWER_BOUND))
		out->time = BASIS_LOWER_BOUND;
	if (row->per_call[TIME_SUM].m > 0 && more)
		out->extrapolated_calls =
			out->calls.value - out->exact_calls > row->sampled_calls
				? out->calls.value - out->exact_calls - row->sampled_calls
				: 0;
}

_Static_assert((int)TIME_SUM == GOVERNOR_SUM && (int)TIME_TOTAL == GOVERNOR_TOTAL &&
		       (int)TIME_SELF == GOVERNOR_SELF,
	       "one order of times");

int sampled__fill(const struct governor_row *row, struct snapshot_fn *fn)
{
	struct snapshot_sampled *out = calloc(1, sizeof(*out));
	const struct clusters *c = row->clusters;
	double rest;

	if (!out)
		return -ENOMEM;
	fn->sampled = out;
	out->mode = governor_mode_names[row->mode];
	out->counted_ns = row->counted_ns;
	out->weight = 1;
	if (c) {
		out->windows = clusters__windows(c);
		out->given_up = clusters__open(c);
	}
	fill_calls(row, fn, out);
	fill_times(row, fn, out);
	fn->coverage = row->timed_ns ? COVERAGE_SAMPLED : COVERAGE_ENTRY_ONLY;
	fn->observed_ns = row->timed_ns ? row->timed_ns : row->counted_ns;
	if (!c)
		return 0;
	rest = (double)(out->calls.value - out->exact_calls);
	if (clusters__calls(c) && rest > (double)clusters__calls(c))
		out->weight = rest / (double)clusters__calls(c);
	fill_intervals(c, fn, out);
	return fill_hist(c, &out->hist);
}
