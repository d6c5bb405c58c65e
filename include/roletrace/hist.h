/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Base-2 exponential histogram maths, the same text in BPF and in the daemon: bucket i of scale 4
 * covers (2^(i/16), 2^((i+1)/16)], the layout of OpenTelemetry's exponential histograms and of
 * Prometheus' native ones. At most 4.5 % wide, exact at the bounds, no floating point.
 *
 * A 64-bit value v >= 1 with top bit e is shifted up until its top bit is bit 63. It lies above
 * 2^(e + j/16) exactly when the shifted value is above floor(2^(63 + j/16)): for j > 0 the power
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

static inline __attribute__((always_inline)) rt_u32 rt_hist_log2(rt_u64 v)
{
	rt_u32 r, s;

	r = (rt_u32)(v > 0xffffffffull) << 5;
	v >>= r;
	s = (rt_u32)(v > 0xffff) << 4;
	v >>= s;
	r |= s;
	s = (rt_u32)(v > 0xff) << 3;
	v >>= s;
	r |= s;
	s = (rt_u32)(v > 0xf) << 2;
	v >>= s;
	r |= s;
	s = (rt_u32)(v > 0x3) << 1;
	v >>= s;
	r |= s;
	return r | (rt_u32)(v >> 1);
}

/* The place of v >= 1: its bucket + 1, so that 1 ns (bucket -1) has place 0. */
static inline __attribute__((always_inline)) rt_u32 rt_hist_place(rt_u64 v, const rt_u64 *bounds)
{
	rt_u32 e = rt_hist_log2(v), below = 0;

	v <<= 63 - e;
	below += (v > bounds[8]) << 3;
	below += (v > bounds[(below + 4) & 15]) << 2;
	below += (v > bounds[(below + 2) & 15]) << 1;
	below += v > bounds[(below + 1) & 15];
	/* below: the highest j > 0 whose bound is passed, or 0; bound 0 itself is still to see */
	return e * 16 + below + (below || v > bounds[0]);
}

#endif
