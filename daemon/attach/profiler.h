/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Samples of where the target's threads run, and where they wait: the programs of profile.bpf.c and
 * their events. Life: new (loaded, attached, nothing counted) → start → tick … → stop → free. Knows
 * addresses, no names.
 */
#ifndef ATTACH_PROFILER_H
#define ATTACH_PROFILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attach/object.h"
#include "roletrace/unwind.h"
#include "target/code.h"

struct profiler;
struct target;

struct profiler_opts {
	uint32_t hz; /* samples per second and CPU; 0: none */
	bool off_cpu;
	uint64_t off_cpu_min_ns;
	uint32_t stack_cnt; /* distinct stacks kept; 0: the default */
	bool by_thread;	    /* threads of different names have stacks of their own */
};

/* 0 or -errno with one line in *reason (malloc'd). target is borrowed. obj is asked for the pid. */
int profiler__new(const struct target *target, const struct object *obj,
		  const struct profiler_opts *opts, struct profiler **out, char **reason);
void profiler__start(struct profiler *p);
/* Keeps the mappings in step; often. */
void profiler__tick(struct profiler *p, uint64_t now_ns);
/* Readable when a tick is due before its time; -1: none. */
int profiler__fd(const struct profiler *p);
void profiler__stop(struct profiler *p);
void profiler__free(struct profiler *p);

const struct profiler_opts *profiler__opts(const struct profiler *p);
const struct code *profiler__code(const struct profiler *p);

/* A stack as it is now. */
struct profiler_stack {
	enum rt_stack_kind kind;
	enum rt_unwind_end end;
	uint64_t cnt, total_ns;
	const uint64_t *frames; /* innermost first (RT_FRAME_PC) */
	uint32_t depth;
	char thread[16]; /* its name, with by_thread */
};

/* Places of the table, and what is in one; false: nothing. */
uint32_t profiler__place_cnt(const struct profiler *p);
bool profiler__stack(const struct profiler *p, uint32_t place, struct profiler_stack *out);

/* Waits that go on now: calls each with the stack's place + 1 (0: lost) and since when. */
int profiler__waits(const struct profiler *p,
		    void (*each)(void *arg, uint32_t place, uint64_t since_ns), void *arg);

struct profiler_counts {
	uint64_t samples;		   /* all that hit the target */
	uint64_t waits, waits_ns;	   /* that ended */
	uint64_t short_waits, short_ns;	   /* of them below the minimum */
	uint64_t samples_lost, waits_lost; /* of them: their stack was not kept */
	uint64_t no_storage;		   /* waits that were not seen, for want of memory */
	uint64_t bare_files;
};
void profiler__counts(const struct profiler *p, struct profiler_counts *out);

#endif
