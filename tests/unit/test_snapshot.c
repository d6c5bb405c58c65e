/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>

#include "synth.h"

static void expect_near(uint64_t got, double want, double part)
{
	cr_expect(fabs((double)got - want) <= want * part, "%llu is not within %g%% of %g",
		  (unsigned long long)got, part * 100, want);
}

Test(snapshot, quantiles_of_nothing_one_and_equal_calls)
{
	struct snapshot_fn fn = { 0 };

	cr_expect_eq(snapshot__quantile_ns(&fn, 0.5), 0);
	cr_expect_eq(snapshot__mean_ns(&fn), 0);
	synth__call(&fn, 12345);
	cr_expect_eq(snapshot__quantile_ns(&fn, 0.5), 12345);
	cr_expect_eq(snapshot__quantile_ns(&fn, 0.99), 12345);
	for (int i = 0; i < 1000; i++)
		synth__call(&fn, 12345);
	cr_expect_eq(snapshot__quantile_ns(&fn, 0), 12345);
	cr_expect_eq(snapshot__quantile_ns(&fn, 1), 12345);
	cr_expect_eq(snapshot__mean_ns(&fn), 12345);
	free(fn.hist.counts);
}

/* A call of a window stands for those that were not timed; one timed outside only for itself. */
Test(snapshot, quantiles_of_windows_are_weighted)
{
	struct snapshot_fn fn = {}, windows = {};
	struct snapshot_sampled sampled = { .weight = 9 };

	for (int i = 0; i < 100; i++)
		synth__call(&fn, 1000000); /* exact at first */
	for (int i = 0; i < 50; i++) {
		synth__call(&fn, 2000);
		synth__call(&windows, 2000);
	}
	fn.sampled = &sampled;
	sampled.hist = windows.hist;
	/* 100 long ones, 450 short ones */
	expect_near(snapshot__quantile_ns(&fn, 0.5), 2000, 0.05);
	expect_near(snapshot__quantile_ns(&fn, 0.80), 2000, 0.05);
	expect_near(snapshot__quantile_ns(&fn, 0.85), 1000000, 0.05);
	sampled.weight = 1;
	expect_near(snapshot__quantile_ns(&fn, 0.5), 1000000, 0.05);
	free(fn.hist.counts);
	free(windows.hist.counts);
}

Test(snapshot, quantiles_lie_within_a_bucket_of_the_truth)
{
	struct snapshot_fn fn = { 0 };

	for (uint64_t v = 1; v <= 100000; v++)
		synth__call(&fn, v * 10);
	for (int i = 1; i < 100; i++)
		expect_near(snapshot__quantile_ns(&fn, i / 100.0), i * 10000.0, 0.0443);
	/* evenly spread values: linear within the bucket does far better than its width */
	expect_near(snapshot__quantile_ns(&fn, 0.5), 500000, 0.001);
	cr_expect_eq(snapshot__quantile_ns(&fn, 1), 1000000);
	free(fn.hist.counts);
}

Test(snapshot, quantiles_of_two_kinds_of_calls)
{
	struct snapshot_fn fn = { 0 };

	for (int i = 0; i < 94; i++)
		synth__call(&fn, 1000000);
	for (int i = 0; i < 6; i++)
		synth__call(&fn, 20000000);
	expect_near(snapshot__quantile_ns(&fn, 0.5), 1e6, 0.0443);
	expect_near(snapshot__quantile_ns(&fn, 0.95), 20e6, 0.0443);
	cr_expect_eq(snapshot__mean_ns(&fn), 2140000);
	free(fn.hist.counts);
}

Test(snapshot, zero_durations_are_counted_as_zero)
{
	struct snapshot_fn fn = { 0 };

	for (int i = 0; i < 90; i++)
		synth__call(&fn, 0);
	for (int i = 0; i < 10; i++)
		synth__call(&fn, 5000);
	cr_expect_eq(hist__count(&fn.hist), 100);
	cr_expect_eq(snapshot__quantile_ns(&fn, 0.5), 0);
	expect_near(snapshot__quantile_ns(&fn, 0.95), 5000, 0.0443);
	free(fn.hist.counts);
}

/* Of the whole window: idle time before it was shed, or after, is in it as well. */
Test(snapshot, share_is_of_the_window)
{
	struct snapshot_sampled a = { .time = BASIS_ESTIMATED };

	struct snapshot s = { .window.duration_ns = 10000000000ull };
	struct snapshot_fn fn = { .total_ns = 5000000000ull };

	cr_expect_eq(snapshot__share(&s, &fn), 0.5);
	fn.observed_ns = 2500000000ull;
	fn.sampled = &a;
	a.times[TIME_TOTAL].value = 8000000000ull;
	cr_expect_eq(snapshot__share(&s, &fn), 0.8);
	fn.observed_ns = s.window.duration_ns = 0;
	cr_expect_eq(snapshot__share(&s, &fn), 0);
}

static uint64_t figure(const struct snapshot_fn *fn, enum snapshot_sort by)
{
	switch (by) {
	case SORT_CALLS:
		return snapshot__all_calls(fn);
	case SORT_MEAN:
		return snapshot__timed(fn) ? snapshot__mean_of_all_ns(fn) : 0;
	case SORT_P95:
		return snapshot__quantile_ns(fn, 0.95);
	case SORT_MAX:
		return fn->max_ns;
	case SORT_SELF:
		return snapshot__time_ns(fn, TIME_SELF);
	case SORT_CPU:
		return fn->cpu_samples;
	default:
		return snapshot__time_ns(fn, TIME_TOTAL);
	}
}

Test(snapshot, order_is_by_the_figure_asked_for)
{
	struct snapshot *s = synth__new();

	for (int by = SORT_TOTAL; by < SORT_NAME; by++) {
		uint32_t *order = snapshot__sorted(s, (enum snapshot_sort)by);

		cr_assert(order);
		for (size_t i = 1; i < s->fn_cnt; i++)
			cr_expect_geq(figure(&s->fns[order[i - 1]], (enum snapshot_sort)by),
				      figure(&s->fns[order[i]], (enum snapshot_sort)by), "%d", by);
		free(order);
	}
	snapshot__free(s);
	snapshot__free(NULL);
}

Test(snapshot, order_by_name_and_of_equals)
{
	struct snapshot *s = synth__new(), *empty = snapshot__new();
	uint32_t *order = snapshot__sorted(s, SORT_NAME);

	for (size_t i = 1; i < s->fn_cnt; i++)
		cr_expect_leq(strcmp(s->fns[order[i - 1]].name, s->fns[order[i]].name), 0);
	free(order);
	/* a max of 0 each: by total, then calls, then name */
	for (size_t i = 0; i < s->fn_cnt; i++)
		s->fns[i].max_ns = s->fns[i].total_ns = 0;
	s->fns[8].sampled->times[TIME_TOTAL].value = 0;
	order = snapshot__sorted(s, SORT_MAX);
	cr_expect_eq(order[0], 9, "the most calls");
	free(order);
	order = snapshot__sorted(empty, SORT_P95);
	cr_expect(order);
	free(order);
	snapshot__free(empty);
	snapshot__free(s);
}

static const struct {
	const char *function, *crate, *exclude;
	size_t kept, edges;
} filters[] = {
	{ NULL, NULL, NULL, 14, 3 },
	{ "*", NULL, NULL, 14, 3 },
	{ NULL, "translator_*", NULL, 14, 3 },
	{ NULL, "other", NULL, 0, 0 },
	{ "main", NULL, NULL, 1, 0 },
	{ "main", "translator_sv2", NULL, 14, 3 },
	{ "*handle_*", NULL, NULL, 3, 2 },
	{ "*handle_*", NULL, "*new_block", 2, 1 },
	{ NULL, NULL, "*", 0, 0 },
	{ "main", NULL, "main", 0, 0 },
};

Test(snapshot, filters_keep_what_was_asked_for)
{
	for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++) {
		struct snapshot *s = synth__new();
		struct snapshot_filter f = {
			.functions = &filters[i].function,
			.function_cnt = filters[i].function != NULL,
			.crates = &filters[i].crate,
			.crate_cnt = filters[i].crate != NULL,
			.excludes = &filters[i].exclude,
			.exclude_cnt = filters[i].exclude != NULL,
		};
		uint64_t hits = s->overhead.hits;

		cr_assert_eq(snapshot__keep(s, &f), 0);
		cr_expect_eq(s->fn_cnt, filters[i].kept, "%zu: %zu", i, s->fn_cnt);
		cr_expect_eq(s->edge_cnt, filters[i].edges, "%zu: %zu", i, s->edge_cnt);
		for (size_t e = 0; e < s->edge_cnt; e++)
			cr_expect(strstr(s->fns[s->edges[e].callee].name, "handle_submit") ||
				  strstr(s->fns[s->edges[e].callee].name, "hash"));
		cr_expect_eq(s->overhead.hits, hits, "figures of the whole stay");
		snapshot__free(s);
	}
}

/* An async fn is told by a row of polls with its name, in either mangling, and by no other. */
Test(snapshot, what_makes_a_future_is_found)
{
	static const struct {
		const char *name;
		bool is_async, unprobed, makes_future;
	} rows[] = {
		{ "a::f", false, false, true },
		{ "a::f2", false, false, false },
		{ "a::f::{{closure}}", true, false, false },
		{ "a::f::{{closure}}::{{closure}}", false, false, false },
		{ "a::g", false, false, true },
		{ "a::g::{closure#0}", true, false, false },
		{ "a::h", false, false, false }, /* an ordinary closure of it */
		{ "a::h::{{closure}}", false, false, false },
		{ "a::i", false, false, false },
		{ "a::i::{impl#2}::poll", true, false, false },
		{ "a::f", false, true, false }, /* samples, no calls */
		{ "b::f::{{closure}}", true, false, false },
		{ "a", false, false, false },
	};
	size_t cnt = sizeof(rows) / sizeof(rows[0]);
	struct snapshot *s = snapshot__new();

	s->fns = calloc(cnt, sizeof(*s->fns));
	s->fn_cnt = cnt;
	for (size_t i = 0; i < cnt; i++) {
		s->fns[i].name = rows[i].name;
		s->fns[i].is_async = rows[i].is_async;
		s->fns[i].unprobed = rows[i].unprobed;
	}
	cr_assert_eq(snapshot__find_futures(s), 0);
	for (size_t i = 0; i < cnt; i++)
		cr_expect_eq(s->fns[i].makes_future, rows[i].makes_future, "%s", rows[i].name);
	snapshot__free(s);
}

Test(delta, of_nothing_before_is_a_copy)
{
	struct snapshot *s = synth__new(), *d = snapshot__delta(s, NULL);

	cr_assert(d);
	cr_expect_eq(d->fn_cnt, s->fn_cnt);
	cr_expect_eq(snapshot__calls(d), snapshot__calls(s));
	cr_expect_eq(d->window.duration_ns, s->window.duration_ns);
	cr_expect_eq(d->edge_cnt, s->edge_cnt);
	for (size_t i = 0; i < s->fn_cnt; i++) {
		cr_expect_eq(hist__count(&d->fns[i].hist), hist__count(&s->fns[i].hist));
		cr_expect_eq(d->fns[i].min_ns, s->fns[i].min_ns);
		cr_expect_eq(d->fns[i].max_ns, s->fns[i].max_ns);
		cr_expect_eq(snapshot__quantile_ns(&d->fns[i], 0.95),
			     snapshot__quantile_ns(&s->fns[i], 0.95));
	}
	snapshot__free(d);
	snapshot__free(s);
}

Test(delta, is_what_happened_in_between)
{
	struct snapshot *prev = synth__new(), *now = snapshot__delta(prev, NULL), *d;
	struct snapshot_fn *fn = &now->fns[0];
	uint64_t *wider;

	now->window.duration_ns += 1000000000;
	now->window.end_unix_ns += 1000000000;
	now->overhead.hits += 200;
	now->overhead.cpu_ratio = (0.0402 * 10 + 0.5) / 11;
	now->overhead.threads_ratio = (0.002 * 10 + 0.25) / 11;
	now->lost[0].count += 3;
	now->edges[2].calls += 7;
	now->edges[2].total_ns += 7000;
	/* now's histogram is trimmed to what it held: give it room again */
	wider = calloc(RT_HIST_BUCKETS + 1, sizeof(*wider));
	memcpy(wider + fn->hist.first, fn->hist.counts, fn->hist.cnt * sizeof(*wider));
	free(fn->hist.counts);
	fn->hist = (struct snapshot_hist){ .counts = wider, .cnt = RT_HIST_BUCKETS + 1 };
	for (int i = 0; i < 10; i++)
		synth__call(fn, 400000);

	d = snapshot__delta(now, prev);
	cr_assert(d);
	cr_expect_eq(snapshot__calls(d), 10);
	cr_expect_eq(d->fns[0].returned, 10);
	cr_expect_eq(hist__count(&d->fns[0].hist), 10);
	cr_expect_eq(d->fns[0].sum_ns, 4000000);
	expect_near(snapshot__quantile_ns(&d->fns[0], 0.5), 400000, 0.0443);
	expect_near(d->fns[0].min_ns, 400000, 0.0443);
	expect_near(d->fns[0].max_ns, 400000, 0.0443);
	cr_expect_leq(d->fns[0].min_ns, 400000);
	cr_expect_geq(d->fns[0].max_ns, 400000);
	cr_expect_eq(d->fns[1].calls, 0);
	cr_expect_eq(d->fns[1].in_flight, 2, "a state, not a counter");
	cr_expect_eq(d->window.duration_ns, 1000000000);
	cr_expect_eq(d->window.start_unix_ns, prev->window.end_unix_ns);
	cr_expect_eq(d->overhead.hits, 200);
	cr_expect(fabs(d->overhead.cpu_ratio - 0.5) < 1e-9);
	cr_expect(fabs(d->overhead.threads_ratio - 0.25) < 1e-9);
	cr_expect(isnan(d->overhead.process_ratio), "not known of the window in between");
	cr_expect_eq(d->lost[0].count, 3);
	cr_expect_eq(d->edge_cnt, 1);
	cr_expect_eq(d->edges[0].calls, 7);
	cr_expect_eq(d->edges[0].total_ns, 7000);
	snapshot__free(d);

	/* a new extreme is known exactly */
	synth__call(fn, 900000000);
	d = snapshot__delta(now, prev);
	cr_expect_eq(d->fns[0].max_ns, 900000000);
	snapshot__free(d);
	snapshot__free(now);
	snapshot__free(prev);
}

Test(delta, refuses_another_plan_and_never_wraps)
{
	struct snapshot *a = synth__new(), *b = synth__new(), *d;

	a->fn_cnt--;
	errno = 0;
	cr_expect_null(snapshot__delta(b, a));
	cr_expect_eq(errno, EINVAL);
	a->fn_cnt++;
	a->fns[0].calls += 5; /* counters that ran backwards */
	a->lost[0].count += 5;
	d = snapshot__delta(b, a);
	cr_assert(d);
	cr_expect_eq(d->fns[0].calls, 0);
	cr_expect_eq(d->lost[0].count, 0);
	snapshot__free(d);
	snapshot__free(a);
	snapshot__free(b);
}
