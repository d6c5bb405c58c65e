/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bucket maths against an exact oracle: v lies in the bucket that ends at 2^(p/16) for the least p
 * with v^16 <= 2^p, in integers of 1024 bits, where long double would round.
 */
#include <criterion/criterion.h>
#include <math.h>

#include "snapshot/snapshot.h"

static const rt_u64 bounds[] = RT_HIST_BOUNDS;

struct big {
	uint32_t limb[32]; /* least first */
};

static struct big square(const struct big *a)
{
	uint64_t acc[33] = { 0 };
	struct big r;

	for (int i = 0; i < 32; i++) {
		uint64_t carry = 0;

		for (int j = 0; i + j < 32; j++) {
			uint64_t t = acc[i + j] + (uint64_t)a->limb[i] * a->limb[j] + carry;

			acc[i + j] = (uint32_t)t;
			carry = t >> 32;
		}
	}
	for (int i = 0; i < 32; i++)
		r.limb[i] = (uint32_t)acc[i];
	return r;
}

/* The least p with v^16 <= 2^p: the bits of v^16 - 1. */
static uint32_t exact_place(uint64_t v)
{
	struct big b = { { (uint32_t)v, (uint32_t)(v >> 32) } };
	uint32_t bits = 0;

	for (int i = 0; i < 4; i++)
		b = square(&b);
	for (int i = 0; b.limb[i]-- == 0;)
		i++;
	for (int i = 0; i < 32; i++)
		for (int k = 0; k < 32; k++)
			if (b.limb[i] >> k & 1)
				bits = (uint32_t)(32 * i + k + 1);
	return bits;
}

/* From 2^63 on all have the place of 2^63 - 1. */
static void check(uint64_t v)
{
	uint32_t want = exact_place(v < INT64_MAX ? v : INT64_MAX);

	cr_assert_eq(rt_hist_place(v, bounds), want, "%llu: place %u, not %u",
		     (unsigned long long)v, rt_hist_place(v, bounds), want);
}

Test(hist, every_bound_and_its_neighbours)
{
	for (uint32_t p = 0; p <= RT_HIST_BUCKETS; p++) {
		long double bound = powl(2, (long double)p / 16);

		for (int off = -3; off <= 3; off++)
			if (floorl(bound) + off >= 1 && floorl(bound) + off < 0x1p64L)
				check((uint64_t)floorl(bound) + (uint64_t)off);
	}
}

Test(hist, powers_of_two_end_their_bucket)
{
	for (uint32_t e = 0; e < 64; e++) {
		cr_expect_eq(rt_hist_place(1ull << e, bounds), e * 16);
		if (e)
			check((1ull << e) + 1);
	}
}

Test(hist, thresholds_are_the_floors_of_the_powers)
{
	for (int j = 0; j < 16; j++) {
		uint64_t b = bounds[j];

		cr_expect_leq(exact_place(b), 63 * 16u + (unsigned int)j);
		cr_expect_gt(exact_place(b + 1), 63 * 16u + (unsigned int)j);
	}
}

Test(hist, small_and_random_values)
{
	uint64_t x = 88172645463325252ull;

	for (uint64_t v = 1; v < 5000; v++)
		check(v);
	for (int i = 0; i < 50000; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		check((x >> (x % 64)) | 1);
	}
	check(UINT64_MAX);
}

Test(hist, places_grow_with_values)
{
	uint32_t last = 0;

	for (uint64_t v = 1; v < 1ull << 62; v += v / 50 + 1) {
		cr_assert_geq(rt_hist_place(v, bounds), last);
		last = rt_hist_place(v, bounds);
	}
}

Test(hist, log2_is_the_top_bit)
{
	for (uint32_t e = 0; e < 63; e++) {
		cr_expect_eq(rt_hist_log2(1ull << e), e);
		cr_expect_eq(rt_hist_log2((1ull << e) | ((1ull << e) - 1)), e);
	}
}

Test(hist, bounds_functions)
{
	cr_expect_eq(hist__upper_ns(0), 1.0);
	cr_expect_eq(hist__lower_ns(1), 1.0);
	cr_expect_eq(hist__upper_ns(16), 2.0);
	for (uint32_t p = 1; p < RT_HIST_BUCKETS; p++) {
		double upper = (double)powl(2, (long double)p / 16);

		cr_expect(fabs(hist__upper_ns(p) / upper - 1) < 1e-14);
		cr_expect_eq(hist__lower_ns(p + 1), hist__upper_ns(p));
		cr_expect(hist__upper_ns(p) / hist__lower_ns(p) < 1.0443);
	}
}
