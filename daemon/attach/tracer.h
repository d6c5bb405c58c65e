/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of a trace: new (load, price, attach, verify; nothing is counted yet) → start (the gate
 * opens) → tick … → stop (the gate shuts, all that runs has finished) → free (all links closed).
 * Freeing at any point leaves nothing behind; so does the end of this process.
 */
#ifndef ATTACH_TRACER_H
#define ATTACH_TRACER_H

#include <stdbool.h>
#include <stdint.h>

#include "attach/governor.h"
#include "attach/mode.h"
#include "attach/object.h"
#include "plan/plan.h"
#include "target/process.h"

struct growth;
struct memory;
struct stacks;
struct tracer;

struct tracer_opts {
	struct attach_mode mode;
	bool raw;		     /* no correction of durations */
	bool empty;		     /* programs that do nothing: the floor of the benchmarks */
	bool rearm_always;	     /* replaces all links at each tick: a test of that */
	bool growth;		     /* --memory growth: who makes the process larger */
	rt_u32 max_blocks;	     /* of the table of live blocks */
	rt_u64 sample_bytes;	     /* of the sample of blocks; 0: none is taken */
	bool sample_table;	     /* only blocks of the sample are in the table */
	const struct stacks *stacks; /* for native stacks of blocks, or NULL */
	const struct stacks *growth_stacks; /* the same of what makes the process larger */
	double budget;			    /* share of one CPU; < 0: none */
	bool assume_seccomp_kills;	    /* of return probes; for tests */
	/* by object of the plan, all false; after -ENXIO true where no probe got into memory */
	bool *unreached;
};

/* 0, or -errno with one line in *reason (malloc'd). plan and target are borrowed. */
int tracer__new(const struct plan *plan, const struct target *target,
		const struct tracer_opts *opts, struct tracer **out, char **reason);
void tracer__start(struct tracer *t);
/* Governor and verification; call after each GOVERNOR_INTERVAL_NS. */
void tracer__tick(struct tracer *t, uint64_t now_ns);
/* Whether nothing goes on, so that the next tick may be later, or when the doorbell rings. */
bool tracer__dozes(const struct tracer *t);
/* Ends a window that is open: from then on no probe comes or goes until the end. */
void tracer__hold(struct tracer *t);
void tracer__stop(struct tracer *t);
void tracer__free(struct tracer *t);

/* The plan has more allocators, from its first-th on, all in that library: traces those that are
 * chosen. 0 or -errno. */
int tracer__adopt(struct tracer *t, size_t first, const struct target_object *library);
/* So much of the budget is taken by what is no probe, of a CPU. */
void tracer__reserve(struct tracer *t, double ratio);
/* NULL: allocators are not traced. */
struct memory *tracer__memory(struct tracer *t);
/* NULL: --memory off. */
struct growth *tracer__growth(struct tracer *t);
struct object *tracer__object(struct tracer *t);
/* The target's id in the outermost pid namespace. */
rt_u32 tracer__kernel_tgid(const struct tracer *t);
bool tracer__refused(const struct tracer *t, rt_u32 fn);
uint32_t tracer__fn_cnt(const struct tracer *t); /* probed */
size_t tracer__probe_cnt(const struct tracer *t);
const struct governor *tracer__governor(const struct tracer *t);
/* Sites found without their breakpoint so far (they were armed again). */
size_t tracer__disarmed(const struct tracer *t);
/* Whether that was in this function: calls were missed. */
bool tracer__has_gap(const struct tracer *t, rt_u32 fn);

/* From the kernel's own events. */
bool tracer__exec_seen(const struct tracer *t);
int tracer__exit_status(const struct tracer *t); /* as of wait(2), once the target has ended */

#endif
