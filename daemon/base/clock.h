/* SPDX-License-Identifier: BSD-2-Clause */
/* Clocks in ns. clock__mono_ns is the clock of bpf_ktime_get_ns. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_SEC 1000000000ull
#define NS_PER_MS 1000000ull

/* 0: there is no such clock (a process's, when that is gone). */
static inline uint64_t clock__ns(clockid_t id)
{
	struct timespec t;

	if (clock_gettime(id, &t))
		return 0;
	return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock__mono_ns(void)
{
	return clock__ns(CLOCK_MONOTONIC);
}

static inline uint64_t clock__unix_ns(void)
{
	return clock__ns(CLOCK_REALTIME);
}

#endif
