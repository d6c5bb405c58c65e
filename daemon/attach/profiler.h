/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Samples of where the target's threads run, and where they wait: the programs of profile.bpf.c and
 * their events. Life: new (loaded, attached, nothing counted) → start → stop → free. Stacks are
 * kept where stacks.h has them.
 */
#ifndef ATTACH_PROFILER_H
#define ATTACH_PROFILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attach/object.h"
#include "roletrace/unwind.h"

struct profiler;
struct stacks;
struct standing;
struct target;

struct profiler_opts {
	uint32_t hz; /* samples per second and CPU; 0: none */
	bool off_cpu;
	uint64_t off_cpu_min_ns;
	bool wakers; /* of off_cpu: who ends the waits */
	/* takes the stacks of waits from before; NULL: there are none. Borrowed */
	struct standing *standing;
};

/* 0 or -errno with one line in *reason (malloc'd). target and stacks are borrowed. obj is asked for
 * the pid. */
int profiler__new(const struct target *target, const struct object *obj, struct stacks *stacks,
		  const struct profiler_opts *opts, struct profiler **out, char **reason);
/* now_ns: of CLOCK_MONOTONIC, when the window begins. */
void profiler__start(struct profiler *p, uint64_t now_ns);
void profiler__stop(struct profiler *p);
void profiler__free(struct profiler *p);

/* Stops noting who ends waits. False: it was not done anyway. */
bool profiler__drop_wakers(struct profiler *p);
bool profiler__wakers_dropped(const struct profiler *p);

const struct profiler_opts *profiler__opts(const struct profiler *p);

/* Waits that go on now: calls each with the stack's place + 1 (0: lost) and since when. */
int profiler__waits(const struct profiler *p,
		    void (*each)(void *arg, uint32_t place, uint64_t since_ns), void *arg);

typedef void (*profiler_ended_fn)(void *arg, const void *key, const struct rt_waits *waits);
/* Waits that have ended, by waiter and waker: key is a struct rt_wake. 0 or -errno. */
int profiler__wakes(const struct profiler *p, profiler_ended_fn each, void *arg);
/* Those at futexes, by futex and stack: key is a struct rt_lock_wait. */
int profiler__futex_waits(const struct profiler *p, profiler_ended_fn each, void *arg);

struct profiler_counts {
	uint64_t samples;		   /* all that hit the target */
	uint64_t waits, waits_ns;	   /* that ended */
	uint64_t short_waits, short_ns;	   /* of them below the minimum */
	uint64_t samples_lost, waits_lost; /* of them: their stack was not kept */
	uint64_t older_waits;	   /* had begun before the start, and are counted from it on */
	uint64_t no_storage;	   /* waits that were not seen, for want of memory */
	uint64_t wakes_lost;	   /* waits without a place for their waker */
	uint64_t futex_waits_lost; /* the same for their futex */
};
void profiler__counts(const struct profiler *p, struct profiler_counts *out);
/* What its programs took so far, ns, by their own clocks; in so many runs. */
uint64_t profiler__spent_ns(const struct profiler *p, uint64_t *runs);

#endif
