/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The sample of blocks, the same text in BPF and in the daemon.
 *
 * A size has a class: below 8 bytes each its own, then eight to an octave. A class has a threshold:
 * a block is in the sample when a random 32-bit number is below it. So it stands for
 * 2^32 / threshold blocks exactly, however the threshold was rounded, and sums of what blocks stand
 * for are right on average (Horvitz and Thompson). No state of a thread, none of the last block.
 */
#ifndef ROLETRACE_SAMPLE_H
#define ROLETRACE_SAMPLE_H

#include "hist.h"

#define RT_SAMPLE_CLASSES 512u
#define RT_SAMPLE_TOP_BIT 47u  /* larger blocks are in its last class */
#define RT_SAMPLE_ALWAYS (~0u) /* a threshold: all are in the sample, and stand for themselves */

static inline __attribute__((always_inline)) rt_u32 rt_sample_class(rt_u64 bytes)
{
	rt_u32 top;

	if (bytes >> (RT_SAMPLE_TOP_BIT + 1))
		bytes = (1ull << (RT_SAMPLE_TOP_BIT + 1)) - 1;
	if (bytes < 8)
		return (rt_u32)bytes;
	top = rt_hist_log2(bytes);
	return (top - 2) * 8 + ((rt_u32)(bytes >> (top - 3)) & 7);
}

/*
 * Without classes, for an interval of 2^shift bytes (shift up to 30) that may change between two
 * events: of at least that many bytes each is in the sample, fewer are as likely as they are a
 * share of it. The threshold of what has bytes, which are not 0.
 */
static inline __attribute__((always_inline)) rt_u32 rt_sample_threshold(rt_u64 bytes, rt_u32 shift)
{
	if (bytes >> shift)
		return RT_SAMPLE_ALWAYS;
	return (rt_u32)(bytes << (32 - shift));
}

/* Sums over a sample, as fractions: blocks rarely stand for a whole number. */
#define RT_SAMPLE_COUNT_BITS 16u /* of numbers of blocks */
#define RT_SAMPLE_BYTES_BITS 10u /* of bytes: 2^54 of them before a sum wraps */

/* What a block of the sample stands for, in RT_SAMPLE_COUNT_BITS. threshold is not 0. */
static inline __attribute__((always_inline)) rt_u64 rt_sample_weight(rt_u32 threshold)
{
	if (threshold == RT_SAMPLE_ALWAYS)
		return 1ull << RT_SAMPLE_COUNT_BITS;
	return ((1ull << (32 + RT_SAMPLE_COUNT_BITS)) + threshold / 2) / threshold;
}

/* Its bytes, likewise, in RT_SAMPLE_BYTES_BITS: what it stands for is bytes * weight. */
static inline __attribute__((always_inline)) rt_u64 rt_sample_bytes(rt_u64 bytes, rt_u64 weight)
{
	return bytes * weight >> (RT_SAMPLE_COUNT_BITS - RT_SAMPLE_BYTES_BITS);
}

#endif
