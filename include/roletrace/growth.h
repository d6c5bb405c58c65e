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

RT_ASSERT_SIZE(struct rt_growth, 32);
RT_ASSERT_SIZE(struct rt_growth_last, 16);

#endif
