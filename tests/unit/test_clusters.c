/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the interval of a quantile holds the truth as often as it says. Populations are made of
 * recorded durations, in fits: calls come at changing rates and get slower together for a while,
 * which makes the calls of a window alike. Windows are placed at random, as the governor does it.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clusters.h"

#define PLACES 640u
#define TRIALS 400
#define SLOTS 3000 /* a population, in slots of the length of a window */

/* Histograms of real runs, counts per place from the first on. */
/* clang-format off */
static const unsigned int spread_wide[] = { /* a loop that waits for others, 19,811 calls */
	12, 0, 0, 0, 56, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 46, 0, 2,
	0, 0, 0, 0, 0, 0, 0, 0, 3, 79, 0, 0, 0, 0, 0, 0, 57, 13, 0, 0, 0, 0, 65, 0, 0, 0, 64, 5,
	0, 0, 67, 2, 0, 71, 8, 0, 69, 3, 0, 60, 0, 60, 0, 77, 0, 56, 0, 49, 0, 56, 67, 0, 57, 48,
	59, 58, 26, 16, 51, 49, 41, 81, 64, 47, 42, 55, 98, 43, 64, 75, 92, 36, 93, 90, 92, 88,
	82, 71, 75, 101, 81, 95, 85, 92, 87, 79, 85, 113, 74, 84, 87, 91, 80, 79, 90, 84, 81, 72,
	99, 58, 79, 87, 68, 67, 81, 66, 53, 60, 78, 62, 55, 72, 62, 51, 46, 46, 43, 52, 42, 32,
	46, 30, 27, 35, 24, 22, 17, 22, 23, 22, 20, 15, 21, 19, 15, 13, 16, 15, 12, 11, 16, 21,
	13, 12, 16, 18, 17, 32, 23, 64, 57, 55, 80, 70, 83, 74, 99, 80, 92, 72, 85, 56, 47, 46,
	33, 36, 16, 23, 20, 17, 16, 10, 19, 10, 12, 8, 7, 11, 8, 9, 11, 7, 18, 24, 19, 20, 25, 17,
	17, 5, 10, 8, 12, 9, 7, 16, 7, 10, 10, 5, 6, 6, 5, 3, 1, 0, 5, 8, 3, 3, 3, 3, 2, 3, 3, 2,
	4, 1, 3, 1, 2, 2, 4, 1, 3, 4, 1, 0, 1, 0, 2, 0, 2, 0, 1, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0,
	1, 0, 1, 0, 1, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0,
	0, 0, 1, 1, 1,
};
static const unsigned int digest[] = { /* SHA-256 in a role, 16,825 calls */
	7, 17, 80, 245, 185, 251, 651, 907, 1174, 1119, 1298, 1325, 1413, 1268, 856, 645, 539,
	606, 542, 646, 582, 628, 581, 303, 184, 129, 101, 82, 57, 47, 34, 32, 37, 36, 29, 20, 17,
	14, 13, 3, 6, 5, 4, 2, 0, 2, 2, 0, 2, 4, 3, 4, 2, 2, 4, 3, 4, 2, 6, 3, 3, 10, 5, 6, 4, 5,
	2, 4, 3, 4, 1, 3, 1, 1, 1, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0,
	0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1,
};
/* clang-format on */

static const struct recorded {
	const char *name;
	const unsigned int *counts;
	size_t cnt;
	unsigned int first;
	double per_slot; /* calls */
	double fits;	 /* how much slower (in places) calls of a slow spell are */
	unsigned int windows;
} recorded[] = {
	{ "spread wide, calm", spread_wide, sizeof(spread_wide) / sizeof(spread_wide[0]), 38, 40, 0,
	  30 },
	{ "spread wide, in fits", spread_wide, sizeof(spread_wide) / sizeof(spread_wide[0]), 38, 40,
	  12, 30 },
	{ "digest, calm", digest, sizeof(digest) / sizeof(digest[0]), 176, 80, 0, 12 },
	{ "digest, in fits", digest, sizeof(digest) / sizeof(digest[0]), 176, 80, 20, 12 },
	{ "digest, seldom", digest, sizeof(digest) / sizeof(digest[0]), 176, 4, 8, 40 },
};

static unsigned long long seed;

static double uniform(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (double)(seed >> 11) / (double)(1ull << 53);
}

static unsigned int draw(const struct recorded *r, double total)
{
	double at = uniform() * total;

	for (size_t i = 0; i < r->cnt; i++) {
		at -= r->counts[i];
		if (at < 0)
			return r->first + (unsigned int)i;
	}
	return r->first + (unsigned int)r->cnt - 1;
}

/* slots[s][place]: the whole truth. */
static void populate(const struct recorded *r, unsigned short (*slots)[PLACES])
{
	double total = 0, slow = 0, busy = 1;

	for (size_t i = 0; i < r->cnt; i++)
		total += r->counts[i];
	memset(slots, 0, SLOTS * sizeof(*slots));
	for (int s = 0; s < SLOTS; s++) {
		unsigned int calls;

		if (uniform() < 0.02)
			slow = uniform() < 0.3 ? r->fits : 0;
		if (uniform() < 0.05)
			busy = 0.2 + 1.6 * uniform();
		calls = (unsigned int)(r->per_slot * busy * 2 * uniform() + uniform());
		while (calls--) {
			unsigned int place = draw(r, total) + (unsigned int)slow;

			slots[s][place < PLACES ? place : PLACES - 1]++;
		}
	}
}

static long true_place(unsigned short (*slots)[PLACES], double q)
{
	double all = 0, below = 0;

	for (int s = 0; s < SLOTS; s++)
		for (unsigned int p = 0; p < PLACES; p++)
			all += slots[s][p];
	for (unsigned int p = 0; p < PLACES; p++) {
		for (int s = 0; s < SLOTS; s++)
			below += slots[s][p];
		if (below >= q * all)
			return p;
	}
	return PLACES;
}

static void sample(const struct recorded *r, unsigned short (*slots)[PLACES], struct clusters *c)
{
	double gap = (double)SLOTS / r->windows, at = uniform() * gap;

	for (; at < SLOTS; at += gap * (0.5 + uniform())) {
		uint64_t counts[PLACES];

		for (unsigned int p = 0; p < PLACES; p++)
			counts[p] = slots[(int)at][p];
		clusters__add(c, counts, 0, 0);
	}
}

Test(clusters, truth_lies_within_in_95_of_100)
{
	static const double qs[] = { 0.5, 0.95, 0.99 };
	static unsigned short slots[SLOTS][PLACES];
	static const uint64_t none[PLACES];

	for (size_t i = 0; i < sizeof(recorded) / sizeof(recorded[0]); i++) {
		const struct recorded *r = &recorded[i];
		int within[3] = {}, narrow[3] = {};
		long truth[3];

		seed = 88172645463325252ull + i;
		populate(r, slots);
		for (int q = 0; q < 3; q++)
			truth[q] = true_place(slots, qs[q]);
		for (int t = 0; t < TRIALS; t++) {
			struct clusters *c = clusters__new(PLACES);

			sample(r, slots, c);
			for (int q = 0; q < 3; q++) {
				long low, high;

				cr_assert_eq(clusters__interval(c, none, 0, 1, qs[q], &low, &high),
					     0);
				within[q] += low <= truth[q] && truth[q] <= high;
				narrow[q] += high < (long)PLACES;
			}
			clusters__free(c);
		}
		for (int q = 0; q < 3; q++)
			cr_expect(within[q] >= TRIALS * 95 / 100,
				  "%s, q %g: truth within in %d of %d", r->name, qs[q], within[q],
				  TRIALS);
		/* an interval that is always the whole axis would hold it too */
		cr_expect(narrow[0] > TRIALS * 9 / 10, "%s: P50 has an upper end in %d of %d",
			  r->name, narrow[0], TRIALS);
	}
}

Test(clusters, few_windows_say_nothing)
{
	struct clusters *c = clusters__new(4);
	uint64_t counts[4] = { 10, 20, 30, 40 }, none[4] = {};
	long low, high;

	for (unsigned int i = 0; i + 1 < CLUSTERS_MIN; i++)
		clusters__add(c, counts, 0, 0);
	cr_expect_lt(clusters__interval(c, none, 0, 1, 0.5, &low, &high), 0);
	clusters__add(c, counts, 0, 0);
	cr_assert_eq(clusters__interval(c, none, 0, 1, 0.5, &low, &high), 0);
	cr_expect(low <= 2 && high >= 2, "%ld..%ld", low, high);
	cr_expect_eq(clusters__windows(c), CLUSTERS_MIN);
	cr_expect_eq(clusters__at(c, 3), 40 * CLUSTERS_MIN);
	clusters__free(c);
}

/* Calls that were not seen to end are longer than all: they only open the upper end. */
Test(clusters, open_calls)
{
	struct clusters *c = clusters__new(4);
	uint64_t counts[4] = { 100, 0, 0, 0 }, none[4] = {};
	long low, high;

	for (int i = 0; i < 20; i++)
		clusters__add(c, counts, 0, 10);
	cr_assert_eq(clusters__interval(c, none, 0, 1, 0.5, &low, &high), 0);
	cr_expect_eq(high, 0);
	cr_assert_eq(clusters__interval(c, none, 0, 1, 0.95, &low, &high), 0);
	cr_expect_eq(high, 4, "no upper end: %ld", high);
	cr_expect_eq(clusters__open(c), 200);
	clusters__free(c);
}

/* Calls timed one and all narrow it down, by their number against the weighted ones. */
Test(clusters, exact_part)
{
	struct clusters *c = clusters__new(8);
	uint64_t a[8] = { 0, 9, 1 }, b[8] = { 0, 1, 9 }, exact[8] = { 0, 0, 0, 0, 0, 100000 },
		 none[8] = {};
	long low, high;

	for (int i = 0; i < 10; i++)
		clusters__add(c, i % 2 ? a : b, 0, 0);
	cr_assert_eq(clusters__interval(c, none, 0, 1, 0.5, &low, &high), 0);
	cr_expect(low == 1 && high == 2, "%ld..%ld", low, high);
	cr_assert_eq(clusters__interval(c, exact, 0, 1, 0.5, &low, &high), 0);
	cr_expect(low == 5 && high == 5, "%ld..%ld", low, high);
	cr_assert_eq(clusters__interval(c, exact, 0, 100000, 0.5, &low, &high), 0);
	cr_expect(low == 1 && high == 2, "%ld..%ld", low, high);
	clusters__free(c);
}
