/* SPDX-License-Identifier: BSD-2-Clause */
/* The line through samples, its error, and what is left of many samples. */
#include <criterion/criterion.h>

#include "base/clock.h"
#include "collect/trend.h"

/* cnt samples as trend__due asks for them, of two owners: one grows by 1000 a second and jitters by
 * noise, the other goes up and down. */
static struct trend *sampled(unsigned int cnt, int64_t noise)
{
	struct trend *t = trend__new(2);
	uint64_t now = 0;

	for (unsigned int i = 0; i < cnt; now += NS_PER_SEC / 4) {
		int64_t jitter = i % 2 ? noise : -noise;
		int64_t live[] = { (int64_t)(now / 1000000) + jitter, (i % 8) * 1000 };

		if (!trend__due(t, now))
			continue;
		cr_assert_eq(trend__add(t, now, 5000 + i, live[0] + live[1], live), 0);
		i++;
	}
	return t;
}

Test(trend, a_line_is_found_exactly)
{
	struct trend *t = sampled(20, 0);
	struct trend_line line;

	cr_assert(trend__line(t, 0, &line));
	cr_assert_float_eq(line.slope, 1000, 0.01);
	cr_assert_lt(line.error, 0.01);
	trend__free(t);
}

Test(trend, noise_shows_in_the_error)
{
	struct trend *t = sampled(40, 500);
	struct trend_line line;

	cr_assert(trend__line(t, 0, &line));
	cr_assert_gt(line.error, 20);
	cr_assert_lt(line.slope - line.error, 1000);
	cr_assert_gt(line.slope + line.error, 1000);
	trend__free(t);
}

Test(trend, up_and_down_is_no_line)
{
	struct trend *t = sampled(64, 0);
	struct trend_line line;

	cr_assert(trend__line(t, 1, &line));
	cr_assert_lt(line.slope - line.error, 0);
	trend__free(t);
}

Test(trend, few_samples_say_nothing)
{
	struct trend *t = sampled(4, 0);
	struct trend_line line;

	cr_assert_not(trend__line(t, 0, &line));
	trend__free(t);
}

Test(trend, any_time_fits)
{
	struct trend *t = sampled(250, 0);
	struct snapshot_memory m = {};
	struct trend_line line;

	trend__history(t, &m);
	cr_assert_leq(m.history_cnt, SNAPSHOT_HISTORY);
	cr_assert_geq(m.history_cnt, SNAPSHOT_HISTORY / 2);
	for (uint32_t i = 1; i < m.history_cnt; i++)
		cr_assert_gt(m.rss_history[i], m.rss_history[i - 1]);
	cr_assert(trend__line(t, 0, &line));
	cr_assert_float_eq(line.slope, 1000, 60, "slope %g", line.slope);
	trend__free(t);
}

Test(trend, rate_of_slices)
{
	double even[] = { 100, 100, 100, 100 }, once[] = { 400, 0, 0, 0 };
	struct trend_line line;

	trend__rate(even, 4, 2, &line);
	cr_assert_float_eq(line.slope, 50, 1e-9);
	cr_assert_float_eq(line.error, 0, 1e-9);
	trend__rate(once, 4, 2, &line);
	cr_assert_float_eq(line.slope, 50, 1e-9);
	cr_assert_gt(line.error, line.slope);
}
