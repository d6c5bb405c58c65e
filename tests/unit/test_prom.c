/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "base/strbuf.h"
#include "export/export.h"
#include "prom_page.h"
#include "synth.h"

/* ---- histograms ---- */

static uint64_t truth_below(const struct snapshot_fn *fn, double bound_ns)
{
	uint64_t cnt = fn->hist.zero_cnt;

	for (uint32_t i = 0; fn->hist.counts && i < fn->hist.cnt; i++)
		if (hist__upper_ns(fn->hist.first + i) <= bound_ns * 1.0000001)
			cnt += fn->hist.counts[i];
	return cnt;
}

/* X2 */
static void check_histogram(const struct page *p, const struct snapshot_fn *fn, const char *shown)
{
	const char *metric = fn->is_async ? "roletrace_poll_duration_seconds"
					  : "roletrace_function_duration_seconds";
	char bucket[64], sum[64], count[64];
	uint64_t before = 0, buckets = 0;
	double bound = 0;

	snprintf(bucket, sizeof(bucket), "%s_bucket", metric);
	snprintf(sum, sizeof(sum), "%s_sum", metric);
	snprintf(count, sizeof(count), "%s_count", metric);
	for (size_t i = 0; i < p->cnt; i++) {
		const struct sample *s = &p->samples[i];
		double le;

		if (strcmp(s->metric, bucket) || strcmp(label(s, "function"), shown))
			continue;
		le = strtod(label(s, "le"), NULL);
		cr_expect_gt(le, bound, "bounds ascend");
		cr_expect_geq(strtoull(s->value, NULL, 10), before, "counts are cumulative");
		if (isfinite(le))
			cr_expect_eq(strtoull(s->value, NULL, 10), truth_below(fn, le * 1e9),
				     "%s le %s", shown, label(s, "le"));
		bound = le;
		before = strtoull(s->value, NULL, 10);
		buckets++;
	}
	cr_expect_eq(buckets, 27, "the same bounds for all: %llu", (unsigned long long)buckets);
	cr_expect(isinf(bound));
	cr_expect_eq(num(p, bucket, shown, "+Inf"), fn->returned);
	cr_expect_eq(num(p, count, shown, NULL), fn->returned);
	expect_seconds(value(p, sum, shown, NULL), fn->sum_ns);
}

Test(prom, x2_histograms_are_cumulative_and_exact)
{
	struct snapshot *s = synth__new();
	struct page *p;

	s->fns[11].name = "plain";
	p = render(s);
	for (size_t i = 0; i < s->fn_cnt; i++)
		if (snapshot__timed(&s->fns[i]) && s->fns[i].calls && strlen(s->fns[i].name) <= 200)
			check_histogram(p, &s->fns[i], s->fns[i].name);
	cr_expect(find(p, "roletrace_function_duration_seconds_bucket", NULL, "1.024e-06"));
	cr_expect(find(p, "roletrace_function_duration_seconds_bucket", NULL, "34.359738368"));
	page__free(p);
	snapshot__free(s);
}

Test(prom, x2_more_than_a_billion_calls)
{
	static uint64_t counts[3] = { 3000000001, 40000000007, 500000000000003 };
	struct snapshot *s = synth__new();
	struct snapshot_fn *fn = &s->fns[0];
	struct page *p;

	free(fn->hist.counts);
	fn->hist = (struct snapshot_hist){ .first = 10 * 16 - 1, .cnt = 3, .counts = counts };
	fn->returned = fn->calls = counts[0] + counts[1] + counts[2];
	fn->sum_ns = 987654321987654321;
	p = render(s);
	cr_expect_eq(num(p, "roletrace_function_calls_total", fn->name, NULL), fn->calls);
	/* 2^10 ns ends with the second of the buckets */
	cr_expect_eq(num(p, "roletrace_function_duration_seconds_bucket", fn->name, "1.024e-06"),
		     43000000008);
	check_histogram(p, fn, fn->name);
	cr_expect_str_eq(value(p, "roletrace_function_duration_seconds_sum", fn->name, NULL),
			 "987654321.987654321");
	page__free(p);
	fn->hist.counts = NULL;
	snapshot__free(s);
}

Test(prom, what_found_no_bucket_is_only_under_infinity)
{
	struct snapshot *s = synth__new();
	struct snapshot_fn *fn = &s->fns[0];
	uint64_t cnt = hist__count(&fn->hist);
	struct page *p;

	fn->hist_lost = 1000;
	fn->returned += 1000;
	p = render(s);
	cr_expect_eq(num(p, "roletrace_function_duration_seconds_bucket", fn->name, "34.359738368"),
		     cnt);
	cr_expect_eq(num(p, "roletrace_function_duration_seconds_bucket", fn->name, "+Inf"),
		     cnt + 1000);
	cr_expect_eq(num(p, "roletrace_function_duration_seconds_count", fn->name, NULL),
		     cnt + 1000);
	page__free(p);
	/* the figures of a running target: the buckets were read after the counters */
	fn->hist_lost = 0;
	fn->returned = cnt - 10;
	p = render(s);
	cr_expect_eq(num(p, "roletrace_function_duration_seconds_bucket", fn->name, "+Inf"), cnt);
	cr_expect_eq(num(p, "roletrace_function_duration_seconds_count", fn->name, NULL), cnt);
	page__free(p);
	snapshot__free(s);
}

/* ---- which series ---- */

Test(prom, target_window_losses_and_price)
{
	struct snapshot *s = synth__new();
	struct page *p = render(s);
	const struct sample *info = find(p, "roletrace_target_info", NULL, NULL);

	cr_assert(info);
	cr_expect_str_eq(info->value, "1");
	cr_expect_str_eq(label(info, "exe"), "/usr/local/bin/translator_sv2");
	cr_expect_str_eq(label(info, "profile"), "stratum");
	for (size_t i = 0; i < p->cnt; i++) {
		cr_expect_str_eq(label(&p->samples[i], "comm"), "translator_sv2");
		cr_expect_str_eq(label(&p->samples[i], "pid"), "4242");
	}
	cr_expect_eq(num(p, "roletrace_target_up", NULL, NULL), 1);
	cr_expect_eq(num(p, "roletrace_tracing", NULL, NULL), 0);
	cr_expect_eq(num(p, "roletrace_healthy", NULL, NULL), 0);
	cr_expect_str_eq(value(p, "roletrace_window_seconds_total", NULL, NULL), "10.000000000");
	cr_expect_str_eq(label(find(p, "roletrace_lost_total", NULL, NULL), "reason"),
			 "orphan_exits");
	cr_expect_eq(num(p, "roletrace_lost_total", NULL, NULL), 14);
	cr_expect_eq(num(p, "roletrace_overhead_hits_total", NULL, NULL), 494632);
	cr_expect_str_eq(value(p, "roletrace_overhead_cpu_ratio", NULL, NULL), "0.0402");
	cr_expect_str_eq(value(p, "roletrace_overhead_budget_ratio", NULL, NULL), "0.02");
	cr_expect_str_eq(value(p, "roletrace_tool_cpu_seconds_total", NULL, NULL), "0.240000000");
	cr_expect_str_eq(value(p, "roletrace_tool_cpu_ratio", NULL, NULL), "0.024");
	cr_expect_eq(num(p, "roletrace_functions_traced", NULL, NULL), 14);
	cr_expect_eq(num(p, "roletrace_functions_called", NULL, NULL), 13);
	cr_expect_eq(num(p, "roletrace_functions_unlisted", NULL, NULL), 0);
	cr_expect_eq(num(p, "roletrace_functions_shed", NULL, NULL), 1);
	page__free(p);

	s->overhead.budget_ratio = -1;
	s->overhead.cpu_ratio = NAN;
	s->target.end = END_EXIT;
	p = render(s);
	cr_expect_null(find(p, "roletrace_overhead_budget_ratio", NULL, NULL));
	cr_expect_str_eq(value(p, "roletrace_overhead_cpu_ratio", NULL, NULL), "NaN");
	cr_expect_eq(num(p, "roletrace_target_up", NULL, NULL), 0);
	page__free(p);
	snapshot__free(s);
}

Test(prom, polls_and_calls_are_never_in_one_metric)
{
	struct snapshot *s = synth__new();
	struct page *p = render(s);
	const char *poll = synth_names[1], *never_called = synth_names[5],
		   *entries = synth_names[9];

	cr_expect_eq(num(p, "roletrace_poll_calls_total", poll, NULL), 12002);
	cr_expect_eq(num(p, "roletrace_poll_in_flight", poll, NULL), 2);
	cr_expect_null(find(p, "roletrace_function_calls_total", poll, NULL));
	cr_expect_null(find(p, "roletrace_function_duration_seconds_count", poll, NULL));
	cr_expect_eq(num(p, "roletrace_function_unwound_total", synth_names[4], NULL), 10);
	expect_seconds(value(p, "roletrace_function_active_seconds_total", synth_names[0], NULL),
		       s->fns[0].total_ns);
	cr_expect_str_eq(
		value(p, "roletrace_function_observed_seconds_total", synth_names[8], NULL),
		"1.300000000", "it was shed");
	cr_expect_null(find(p, "roletrace_function_calls_total", never_called, NULL));
	cr_expect_eq(num(p, "roletrace_function_calls_total", entries, NULL), 123456789);
	cr_expect_null(find(p, "roletrace_function_duration_seconds_count", entries, NULL));
	cr_expect_null(find(p, "roletrace_function_in_flight", entries, NULL));
	page__free(p);
	snapshot__free(s);
}

Test(prom, series_are_bounded_and_the_rest_counted)
{
	struct snapshot *s = snapshot__new();
	char names[150][16];
	struct page *p;
	size_t listed = 0;

	s->fns = calloc(150, sizeof(*s->fns));
	s->fn_cnt = 150;
	for (size_t i = 0; i < 150; i++) {
		snprintf(names[i], sizeof(names[i]), "f%zu", i);
		s->fns[i].name = s->fns[i].symbol = names[i];
		s->fns[i].crate = "";
		synth__call(&s->fns[i], 1000 * (i + 1));
	}
	p = render(s);
	for (size_t i = 0; i < p->cnt; i++)
		listed += !strcmp(p->samples[i].metric, "roletrace_function_calls_total");
	cr_expect_eq(listed, 100);
	cr_expect_eq(num(p, "roletrace_functions_unlisted", NULL, NULL), 50);
	cr_expect_eq(num(p, "roletrace_functions_unlisted_calls", NULL, NULL), 50);
	cr_expect_null(find(p, "roletrace_function_calls_total", "f49", NULL), "most time first");
	cr_expect(find(p, "roletrace_function_calls_total", "f50", NULL));
	cr_expect_lt(p->cnt, 4000u, "%zu series", p->cnt);
	page__free(p);
	snapshot__free(s);
}

/* ---- names ---- */

Test(prom, x1_odd_names_come_out_valid_and_apart)
{
	static const char *const odd[][2] = {
		{ "quote\" back\\slash", "quote\" back\\slash" },
		{ "two\nlines", "two\nlines" },
		{ "\\n", "\\n" },
		{ "cut\xe8\xa8", "cut\xef\xbf\xbd" },
		{ "計算,哈希{}=", "計算,哈希{}=" },
		{ "esc\x1b[31m\r", "esc\xef\xbf\xbd[31m\xef\xbf\xbd" },
		{ "", "" },
	};
	struct snapshot *s = synth__new();
	struct page *p;

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		s->fns[i].name = odd[i][0];
		s->fns[i].calls = 1000 + i;
		s->fns[i].is_async = false;
	}
	s->target.comm = "計算計算計\xe7";
	s->lost[0].name = "odd\"\n";
	p = render(s);
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		cr_expect_eq(num(p, "roletrace_function_calls_total", odd[i][1], NULL), 1000 + i);
	cr_expect_str_eq(label(&p->samples[0], "comm"), "計算計算計\xef\xbf\xbd");
	cr_expect_str_eq(label(find(p, "roletrace_lost_total", NULL, NULL), "reason"), "odd\"\n");
	page__free(p);
	snapshot__free(s);
}

/* What was estimated has series of its own, and none among those of what was measured. */
Test(prom, estimates_are_apart)
{
	struct snapshot *s = synth__new();
	const char *hot = synth_names[8];
	struct page *p = render(s);

	cr_expect_null(find(p, "roletrace_function_calls_total", hot, NULL));
	cr_expect_null(find(p, "roletrace_function_active_seconds_total", hot, NULL));
	cr_expect_null(find(p, "roletrace_function_self_seconds_total", hot, NULL));
	cr_expect_eq(num(p, "roletrace_function_calls_estimate", hot, NULL), 123456);
	cr_expect_eq(num(p, "roletrace_function_calls_low", hot, NULL), 111111);
	cr_expect_null(find(p, "roletrace_function_calls_high", hot, NULL), "not known");
	expect_seconds(value(p, "roletrace_function_active_seconds_estimate", hot, NULL),
		       s->fns[8].sampled->times[TIME_TOTAL].value);
	expect_seconds(value(p, "roletrace_function_self_seconds_high", hot, NULL),
		       s->fns[8].sampled->times[TIME_SELF].high);
	cr_expect_null(find(p, "roletrace_function_calls_estimate", synth_names[0], NULL));
	cr_expect(find(p, "roletrace_function_calls_total", synth_names[0], NULL));
	page__free(p);
	snapshot__free(s);
}

/* render itself sees that no series is there twice */
Test(prom, x1_names_that_show_the_same_stay_apart)
{
	struct snapshot *s = synth__new();
	struct page *p;
	size_t hashed = 0;

	s->fns[0].name = "bad\xff";
	s->fns[2].name = "bad\xfe";
	s->fns[3].name = s->fns[4].name = "twice";
	s->fns[3].symbol = s->fns[4].symbol = "twice"; /* not from us, but from a file perhaps */
	s->fns[6].name = s->fns[10].name = "by_symbol";
	p = render(s);
	for (size_t i = 0; i < p->cnt; i++)
		if (!strcmp(p->samples[i].metric, "roletrace_function_calls_total"))
			hashed += strstr(label(&p->samples[i], "function"), " #") != NULL;
	cr_expect_eq(hashed, 6);
	page__free(p);
	snapshot__free(s);
}

Test(prom, e13_long_names_are_cut_between_characters)
{
	struct snapshot *s = synth__new();
	char *name[2];
	struct page *p;

	for (int i = 0; i < 2; i++) {
		name[i] = calloc(1, 5001);
		for (size_t at = 0; at < 4998; at += 3)
			memcpy(name[i] + at, "計", 3);
		memcpy(name[i] + 4998, "z", 1);
		s->fns[i * 2].name = name[i];
	}
	s->fns[11].name = "plain";
	name[1][2400] = 'x';
	name[1][2401] = 'y';
	name[1][2402] = 'z'; /* in what is left out */
	p = render(s);
	for (size_t i = 0; i < p->cnt; i++) {
		const char *function = label(&p->samples[i], "function");

		cr_expect_leq(function ? strlen(function) : 0, 260u);
		cr_expect_null(function ? strstr(function, "\xef\xbf\xbd") : NULL, "%s", function);
	}
	page__free(p);
	snapshot__free(s);
	free(name[0]);
	free(name[1]);
}

Test(prom, nothing_traced_is_a_page_too)
{
	struct snapshot *s = snapshot__new();
	struct page *p = render(s);

	cr_expect_eq(num(p, "roletrace_functions_traced", NULL, NULL), 0);
	cr_expect_null(find(p, "roletrace_function_calls_total", NULL, NULL));
	page__free(p);
	snapshot__free(s);
}
