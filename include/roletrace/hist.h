/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Base-2 exponential histogram maths, the same text in BPF and in the daemon: bucket i of scale 4
 * covers (2^(i/16), 2^((i+1)/16)], the layout of OpenTelemetry's exponential histograms and of
 * Prometheus' native ones. At most 4.5 % wide, exact at the bounds, no floating point.
 *
 * A value v >= 1 with top bit e is shifted up until its top bit is bit 62. It lies above
 * 2^(e + j/16) exactly when the shifted value is above floor(2^(62 + j/16)): for j > 0 the power
 * is irrational, so no integer equals it. A search in 16 thresholds gives the bucket.
 */
#ifndef ROLETRACE_HIST_H
#define ROLETRACE_HIST_H

#include "abi.h"

#define RT_HIST_SCALE 4u
/* Buckets are kept in chunks of 16: chunk c, slot s hold bucket 16 c + s - 1. */
#define RT_HIST_CHUNK 16u
#define RT_HIST_CHUNKS 64u
#define RT_HIST_BUCKETS (RT_HIST_CHUNKS * RT_HIST_CHUNK)

/* The chunks of one function: numbers into the pool, 0 = none yet. */
struct rt_hist_dir {
	rt_u32 chunk[RT_HIST_CHUNKS];
};
struct rt_hist_chunk {
	rt_u64 count[RT_HIST_CHUNK];
};
RT_ASSERT_SIZE(struct rt_hist_dir, 256);
RT_ASSERT_SIZE(struct rt_hist_chunk, 128);

/* floor(2^(63 + j/16)); a macro, for the BPF side wants it in its own rodata. */
#define RT_HIST_BOUNDS                                                                             \
	{                                                                                          \
		0x8000000000000000ull, 0x85aac367cc487b14ull, 0x8b95c1e3ea8bd6e6ull,               \
			0x91c3d373ab11c336ull, 0x9837f0518db8a96full, 0x9ef5326091a111adull,       \
			0xa5fed6a9b15138eaull, 0xad583eea42a14ac6ull, 0xb504f333f9de6484ull,       \
			0xbd08a39f580c36beull, 0xc5672a115506daddull, 0xce248c151f8480e3ull,       \
			0xd744fccad69d6af4ull, 0xe0ccdeec2a94e111ull, 0xeac0c6e7dd24392eull,       \
			0xf5257d152486cc2cull                                                      \
	}

/* 1 if a > b, for values below 2^63; no branch, for each one doubles the verifier's work. */
static inline __attribute__((always_inline)) rt_u32 rt_above(rt_u64 a, rt_u64 b)
{
	return (rt_u32)((b - a) >> 63);
}

static inline __attribute__((always_inline)) rt_u32 rt_hist_log2(rt_u64 v)
{
	rt_u32 r, s;

	r = rt_above(v, 0xffffffffull) << 5;
	v >>= r;
	s = rt_above(v, 0xffff) << 4;
	v >>= s;
	r |= s;
	s = rt_above(v, 0xff) << 3;
	v >>= s;
	r |= s;
	s = rt_above(v, 0xf) << 2;
	v >>= s;
	r |= s;
	s = rt_above(v, 0x3) << 1;
	v >>= s;
	r |= s;
	return r | (rt_u32)(v >> 1);
}

/*
 * An index below 16. The compiler knows that of j as well and drops the mask; an older verifier
 * (6.1) does not, and refuses the program.
 */
static inline __attribute__((always_inline)) rt_u32 rt_hist_index(rt_u32 j)
{
	__asm__("" : "+r"(j));
	return j & 15;
}

/*
 * The place of v >= 1: its bucket + 1, so that 1 ns (bucket -1) has place 0. bounds is
 * RT_HIST_BOUNDS. Values of 2^63 and more (292 years) have the place of 2^63 - 1.
 */
static inline __attribute__((always_inline)) rt_u32 rt_hist_place(rt_u64 v, const rt_u64 *bounds)
{
	rt_u32 e, j = 0;

	if (v >> 63)
		v = ~0ull >> 1;
	e = rt_hist_log2(v);
	v <<= 62 - e;
	/* the highest j > 0 whose bound is passed, or 0 */
	j += rt_above(v, bounds[8] >> 1) << 3;
	j += rt_above(v, bounds[rt_hist_index(j + 4)] >> 1) << 2;
	j += rt_above(v, bounds[rt_hist_index(j + 2)] >> 1) << 1;
	j += rt_above(v, bounds[rt_hist_index(j + 1)] >> 1);
	/* past bound 0 itself, unless v is a power of two: that closes the bucket below */
	return e * 16 + j + rt_above(v, bounds[0] >> 1);
}

#endif
