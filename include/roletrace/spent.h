/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What programs that are no probes of functions have taken: counted, and one in some timed. */
#ifndef ROLETRACE_SPENT_H
#define ROLETRACE_SPENT_H

#include "roletrace/abi.h"

#define RT_SPENT_PROGRAMS 4u

/* One program on one CPU. */
struct rt_spent {
	rt_u64 cnt;	  /* runs for the target */
	rt_u64 timed, ns; /* of them measured, and how long those took */
	rt_u64 next;	  /* cnt at which the next one is measured */
};

/* Places in the map, by BPF object. */
enum rt_spent_threads { RT_SPENT_SWITCH, RT_SPENT_WAKING };
enum rt_spent_profile { RT_SPENT_SAMPLE, RT_SPENT_OFF_CPU, RT_SPENT_WAKER };
enum rt_spent_growth { RT_SPENT_FAULT, RT_SPENT_MAP };
enum rt_spent_memory { RT_SPENT_ENTER, RT_SPENT_RETURN };

#endif
