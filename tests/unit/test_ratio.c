/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the interval of a ratio holds the truth as often as it says, of loads that vary: calm, in
 * bursts, with a trend; with few windows, which come less often where there is much to see, as
 * those of the governor do.
 */
#include <criterion/criterion.h>
#include <math.h>

#include "base/ratio.h"

#define TRIALS 400
#define SLOTS 5000 /* of a window's length */

static unsigned long long seed;

static double uniform(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (double)(seed >> 11) / (double)(1ull << 53);
}

static const struct load {
	const char *name;
	double burst_share, burst_slots, burst, calm, trend;
	double gap; /* slots between windows, at least */
} loads[] = {
	{ "steady", 0, 1, 0, 1000, 0, 150 },
	{ "long bursts", 0.3, 500, 3000, 100, 0, 150 },
	{ "short bursts", 0.3, 4, 3000, 100, 0, 150 },
	{ "few bursts", 0.1, 100, 10000, 200, 0, 100 },
	{ "growing", 0, 1, 0, 1000, 3, 250 },
	{ "few windows", 0.5, 50, 2000, 500, 1, 600 },
};

static void populate(const struct load *l, double *calls)
{
	int in_burst = 0;

	for (int s = 0; s < SLOTS; s++) {
		if (uniform() < 1 / l->burst_slots)
			in_burst = uniform() < l->burst_share;
		calls[s] = (in_burst ? l->burst : l->calm) * (0.5 + uniform()) *
			   (1 + l->trend * s / SLOTS);
	}
}

/* A window stands for the time since the one before; after a dear one the gap is longer. */
static void sample(const struct load *l, const double *calls, struct ratio *r, double *most)
{
	double at = 0, gap = l->gap, before;

	while (1) {
		before = at;
		at += gap * (0.5 + uniform());
		if (at >= SLOTS)
			return;
		ratio__add(r, calls[(int)at] * (at - before), at - before);
		*most = fmax(*most, calls[(int)at]);
		gap = fmax(l->gap, l->gap * calls[(int)at] / 2000);
	}
}

Test(ratio, truth_lies_within_in_90_of_100)
{
	static double calls[SLOTS];

	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
		const struct load *l = &loads[i];
		double mean = 0, off = 0;
		int within = 0, known = 0;

		seed = 88172645463325252ull + i;
		for (int t = 0; t < TRIALS; t++) {
			double truth = 0, low, high, most = 0;
			struct ratio r = {};

			populate(l, calls);
			for (int s = 0; s < SLOTS; s++)
				truth += calls[s] / SLOTS;
			sample(l, calls, &r, &most);
			mean += truth / TRIALS;
			off += (ratio__value(&r) - truth) / TRIALS;
			if (ratio__interval(&r, most, &low, &high))
				continue;
			known++;
			within += low <= truth && truth <= high;
		}
		cr_expect(known > TRIALS * 8 / 10, "%s: an interval in %d", l->name, known);
		cr_expect(within >= known * 9 / 10, "%s: truth within in %d of %d", l->name, within,
			  known);
		/* of bursts as long as the gaps the ends go unseen behind dear windows */
		cr_expect(fabs(off) < 0.2 * mean, "%s: off by %.1f of %.1f on average", l->name,
			  off, mean);
	}
}

/* The interval of a steady load is a narrow one. */
Test(ratio, steady_is_narrow)
{
	struct ratio r = {};
	double low, high;

	for (int i = 0; i < 30; i++)
		ratio__add(&r, 100 + i % 3, 10);
	cr_assert_eq(ratio__interval(&r, 0, &low, &high), 0);
	cr_expect(low > 8.5 && low < 10.1 && high > 10.1 && high < 10.5, "%f..%f", low, high);
}

Test(ratio, few_windows_say_nothing)
{
	struct ratio r = {};
	double low, high;

	cr_expect_eq(ratio__value(&r), 0);
	for (unsigned int i = 0; i + 1 < RATIO_MIN; i++)
		ratio__add(&r, 6, 2);
	cr_expect_lt(ratio__interval(&r, 0, &low, &high), 0);
	cr_expect_eq(ratio__value(&r), 3);
	cr_expect_lt(ratio__error(&r), 0);
}
