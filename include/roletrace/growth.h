/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the growth programs and the daemon both see. Like abi.h: fixed width, sizes asserted.
 */
#ifndef ROLETRACE_GROWTH_H
#define ROLETRACE_GROWTH_H

#include "abi.h"

#define RT_COMM_BYTES 16u
/* Names of threads that have a row of their own. */
#define RT_GROWTH_THREADS 512u

/* How the process grew at one call path (one shard), or in threads of one name. */
struct rt_growth {
	rt_u64 mapped_pages, unmapped_pages; /* of address space */
	rt_u64 data_pages; /* net change of private writable mappings; may go below zero */
	rt_u64 faults;	   /* page faults in user space */
};

/* What the process had mapped when the programs last saw it change, plus one; 0: not known yet. */
struct rt_growth_last {
	rt_u64 total_pages, data_pages;
};

/* The same at one native stack, from the events of the sample: what they stand for. All only grow.
 */
struct rt_growth_stack {
	rt_u64 changes;		 /* of the memory map; RT_SAMPLE_COUNT_BITS */
	rt_u64 mapped, unmapped; /* bytes, RT_SAMPLE_BYTES_BITS */
	rt_u64 data_up, data_down;
	rt_u64 faults; /* RT_SAMPLE_COUNT_BITS */
	/* Of those that do not stand for themselves alone: the squares of what they stand for,
	 * pages. No more is the variance of any of the sums. */
	rt_u64 map_squares, fault_squares;
};

/* What of the events is in the sample: one of 2^shift bytes is certain to be (roletrace/sample.h).
 * A page fault is taken for one page: what it maps is not known when it comes. */
enum rt_growth_event { RT_GROWTH_MAP, RT_GROWTH_FAULT, RT_GROWTH_EVENTS };
#define RT_GROWTH_PAGE_BITS 12u
#define RT_GROWTH_MOST_SHIFT 30u

/* Stacks taken of one sort of event. */
struct rt_growth_taken {
	rt_u64 cnt, ns; /* and how long that took in all */
	rt_u64 lost;	/* of cnt: not kept */
};

RT_ASSERT_SIZE(struct rt_growth, 32);
RT_ASSERT_SIZE(struct rt_growth_stack, 64);
RT_ASSERT_SIZE(struct rt_growth_taken, 24);
RT_ASSERT_SIZE(struct rt_growth_last, 16);

#endif
