/* SPDX-License-Identifier: BSD-2-Clause */
/* The sample of blocks and what is estimated from it: right on average, and as wrong as it says. */
#include <criterion/criterion.h>
#include <math.h>

#include "attach/blocksample.h"
#include "collect/estimate.h"

#define TRIALS 2000

/* splitmix64 */
static uint32_t random_u32(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (uint32_t)((z ^ z >> 31) >> 32);
}

/* As the programs decide. */
static bool is_sampled(const struct blocksample *s, uint64_t bytes, uint64_t *state)
{
	uint32_t threshold = s->thresholds[rt_sample_class(bytes)];

	return threshold == RT_SAMPLE_ALWAYS || random_u32(state) < threshold;
}

struct blocks {
	const char *what;
	uint64_t interval;
	unsigned int cnt;
	uint64_t smallest, spread; /* sizes: smallest + i * i % spread */
};

static const struct blocks cases[] = {
	{ "nothing likely to be seen", 512 << 10, 100, 16, 1000 },
	{ "one or two seen", 64 << 10, 100, 16, 2000 },
	{ "a few seen", 64 << 10, 1000, 16, 1000 },
	{ "many seen", 4096, 2000, 1, 4000 },
	{ "blocks of one size", 8192, 500, 24, 1 },
	{ "blocks around the interval", 1000, 300, 500, 1500 },
	{ "all seen", 16, 500, 4096, 100000 },
	{ "tiny interval", 2, 3000, 1, 7 },
	{ "a large one among small ones", 64 << 10, 400, 8, 1 << 20 },
	{ "blocks of nothing", 64, 100, 0, 1 },
};

static uint64_t size_of(const struct blocks *b, unsigned int i)
{
	return b->smallest + (uint64_t)i * i % b->spread;
}

static void take(const struct blocks *b, const struct blocksample *s, uint64_t seed,
		 struct estimate *out)
{
	uint64_t state = seed * 0x2545f4914f6cdd1dull;

	*out = (struct estimate){};
	for (unsigned int i = 0; i < b->cnt; i++)
		if (is_sampled(s, size_of(b, i), &state))
			estimate__add(out, s, size_of(b, i));
}

static double truth_of(const struct blocks *b)
{
	double sum = 0;

	for (unsigned int i = 0; i < b->cnt; i++)
		sum += (double)size_of(b, i);
	return sum;
}

Test(estimate, is_right_on_average)
{
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		const struct blocks *b = &cases[c];
		double truth = truth_of(b), sum = 0, squares = 0, counts = 0, variance = 0, se;
		struct blocksample s;

		blocksample__init(&s, b->interval);
		for (uint64_t seed = 1; seed <= TRIALS; seed++) {
			struct estimate e;

			take(b, &s, seed, &e);
			sum += e.bytes;
			squares += (e.bytes - truth) * (e.bytes - truth);
			counts += e.count;
			variance += e.variance;
		}
		se = sqrt(squares / TRIALS / TRIALS);
		cr_expect(fabs(sum / TRIALS - truth) <= 3.5 * se + 1e-9 * truth,
			  "%s: mean %g of %g, standard error %g", b->what, sum / TRIALS, truth, se);
		cr_expect(fabs(variance - squares) <= 0.15 * squares + 1e-6,
			  "%s: variance %g by the estimator, %g in truth", b->what,
			  variance / TRIALS, squares / TRIALS);
		/* a small block that is seen stands for thousands: numbers scatter more */
		cr_expect(fabs(counts / TRIALS - b->cnt) <= 0.25 * b->cnt, "%s: %g blocks of %u",
			  b->what, counts / TRIALS, b->cnt);
	}
}

Test(estimate, is_in_its_interval)
{
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		const struct blocks *b = &cases[c];
		double truth = truth_of(b);
		unsigned int hits = 0, bounded = 0;
		struct blocksample s;

		blocksample__init(&s, b->interval);
		for (uint64_t seed = 1; seed <= TRIALS; seed++) {
			struct estimate e;
			double error, most = 1.2 * truth;

			take(b, &s, seed, &e);
			error = estimate__error(&e, &s, INFINITY);
			hits += fabs(e.bytes - truth) <= error + 1e-6;
			error = estimate__error(&e, &s, most);
			bounded += fabs(estimate__bytes(&e, most) - truth) <= error + 1e-6;
		}
		cr_expect(hits >= 0.95 * TRIALS, "%s: %u of %u", b->what, hits, TRIALS);
		cr_expect(bounded >= 0.95 * TRIALS, "%s: %u of %u, bounded", b->what, bounded,
			  TRIALS);
	}
}

/* An interval that always holds the truth by being wide says nothing. */
Test(estimate, interval_is_not_wider_than_need_be)
{
	struct blocks b = { "many", 4096, 20000, 16, 500 };
	double truth = truth_of(&b), spread = 0, width = 0;
	struct blocksample s;

	blocksample__init(&s, b.interval);
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct estimate e;

		take(&b, &s, seed, &e);
		spread += (e.bytes - truth) * (e.bytes - truth) / 200;
		width += estimate__error(&e, &s, INFINITY) / 200;
	}
	cr_expect(width < 1.15 * 1.96 * sqrt(spread), "%g, %g would do", width,
		  1.96 * sqrt(spread));
	cr_expect(width < 0.1 * truth, "%g of %g", width, truth);
}

Test(estimate, without_a_sample_is_exact)
{
	struct estimate e = {}, f = {};
	struct blocksample s;

	blocksample__init(&s, 1);
	for (uint64_t bytes = 0; bytes < 100000; bytes = bytes * 2 + 1) {
		estimate__add(&e, NULL, bytes);
		estimate__add(&f, &s, bytes);
	}
	cr_expect_eq(e.bytes, f.bytes);
	cr_expect_eq(e.count, 17);
	cr_expect_eq(estimate__error(&e, NULL, INFINITY), 0);
	cr_expect_eq(estimate__error(&f, &s, INFINITY), 0);
	estimate__merge(&e, &f);
	cr_expect_eq(e.bytes, 2 * f.bytes);
	cr_expect_eq(e.seen, 34);
}

Test(estimate, classes_are_narrow_and_in_order)
{
	struct blocksample s;
	rt_u32 last = 0;

	blocksample__init(&s, 1 << 20);
	for (uint64_t bytes = 0; bytes < 1ull << 47; bytes += bytes / 16 + 1) {
		rt_u32 class = rt_sample_class(bytes), t = s.thresholds[class];
		double p = -expm1(-(double)bytes / (1 << 20)), got = ldexp(t, -32);

		cr_assert(class >= last && class < RT_SAMPLE_CLASSES, "%llu: %u",
			  (unsigned long long)bytes, class);
		cr_assert(!bytes || fabs(got - p) <= 0.07 * p + 1e-9, "%llu: %g, %g",
			  (unsigned long long)bytes, got, p);
		last = class;
	}
	cr_expect_eq(rt_sample_class(UINT64_MAX), rt_sample_class((1ull << 48) - 1));
	cr_expect_eq(s.thresholds[rt_sample_class(1ull << 40)], RT_SAMPLE_ALWAYS);
	cr_expect(s.thresholds[0] > 0, "blocks of 0 bytes are never seen");
}

/* What the programs add up in whole numbers is what the estimator has. */
Test(estimate, fixed_point_is_fine_enough)
{
	static const uint64_t intervals[] = { 2, 3, 1000, 512 << 10, BLOCKSAMPLE_MOST };

	for (size_t i = 0; i < sizeof(intervals) / sizeof(intervals[0]); i++) {
		struct blocksample s;

		blocksample__init(&s, intervals[i]);
		for (uint64_t bytes = 0; bytes < 1ull << 46; bytes = bytes * 3 + 1) {
			rt_u64 weight = rt_sample_weight(s.thresholds[rt_sample_class(bytes)]);
			double exact = blocksample__weight(&s, bytes);
			double of = ldexp((double)rt_sample_bytes(bytes, weight),
					  -(int)RT_SAMPLE_BYTES_BITS);

			cr_expect(fabs(ldexp((double)weight, -(int)RT_SAMPLE_COUNT_BITS) - exact) <
					  1e-5 * exact,
				  "%llu: %g", (unsigned long long)bytes, exact);
			cr_expect(fabs(of - exact * (double)bytes) <=
					  1e-5 * exact * (double)bytes + 0.001,
				  "%llu: %g", (unsigned long long)bytes, of);
		}
	}
}
