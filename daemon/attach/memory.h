/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory programs: loaded beside those of the functions, whose shadow stacks they read, with
 * links of their own on the allocators of the plan. Nothing is counted until the gate opens.
 */
#ifndef ATTACH_MEMORY_H
#define ATTACH_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attach/object.h"
#include "plan/plan.h"
#include "roletrace/memory.h"
#include "target/process.h"

struct hands_pile;
struct memory;
struct stacks;

struct memory_opts {
	bool no_kernel;	     /* the kernel lacks what it takes: only the process is watched */
	bool no_returns;     /* return probes would kill the target */
	rt_u32 max_blocks;   /* bound of the table of live blocks */
	rt_u64 sample_bytes; /* blocks of the sample have a native stack; 0: no sample */
	bool sample_table;   /* only they are in the table */
	const struct stacks *stacks; /* where stacks are kept; NULL: none is taken */
	const char *const *paths;    /* that open the files, one per object of the plan */
	rt_u32 tgid;		     /* of the target, for the kernel */
};

/*
 * 0 or -errno with one line in *reason (malloc'd). functions, plan and target are borrowed. What
 * cannot be traced here is no error: see memory__why.
 */
int memory__new(const struct object *functions, const struct plan *plan,
		const struct target *target, const struct memory_opts *opts, struct memory **out,
		char **reason);
void memory__start(struct memory *m);
void memory__stop(struct memory *m);
/* Traces the allocators that were added to the plan, from its first-th on; the path that opens
 * their file. 0 or -errno. */
int memory__adopt(struct memory *m, size_t first, const char *path);
/* When an allocator that came later was attached to; 0: from the start on. */
uint64_t memory__since_unix_ns(const struct memory *m, rt_u32 allocator);
/* Takes the allocators' probes away; what was counted stays. */
void memory__shed(struct memory *m);
/* The open links go to the closer. */
void memory__free(struct memory *m, struct hands_pile *to);

/* Why allocators are not traced although that was asked for; NULL: they are. */
const char *memory__why(const struct memory *m);
bool memory__is_shed(const struct memory *m);
uint64_t memory__shed_ns(const struct memory *m); /* when; 0: it is not */
size_t memory__probe_cnt(const struct memory *m);

/* What an allocator (of the plan) did since the gate opened; classes has RT_MEM_CLASSES places. */
void memory__sums(const struct memory *m, rt_u32 allocator, struct rt_mem_sums *classes);
void memory__events(const struct memory *m, rt_u32 allocator, struct rt_mem_events *out);
/* What a call path (its id) allocated. */
void memory__owner(const struct memory *m, rt_u32 path, struct rt_mem_sums *out);
/* The sample: what a block of it stands for. NULL: there is none. */
const struct blocksample *memory__sample(const struct memory *m);
/* Only blocks of the sample have owners and stacks, and what is live by address is an estimate. */
bool memory__is_estimated(const struct memory *m);

/* Native stacks: how many were taken, how long that took, what the blocks stand for whose stack was
 * not kept (RT_SAMPLE_*_BITS). */
struct memory_native {
	rt_u64 cnt, ns, lost_cnt, lost_bytes;
};
void memory__native(const struct memory *m, struct memory_native *out);

rt_u64 memory__lost(const struct memory *m, enum rt_mem_lost what);
/* What the probes have cost the target so far, ns, and how many hits that were. */
rt_u64 memory__cost_ns(const struct memory *m, const struct prices *p, rt_u64 *hits);

/* Calls each for every live block, one that is freed meanwhile perhaps too. 0 or -errno. */
int memory__blocks(const struct memory *m,
		   void (*each)(void *arg, const struct rt_mem_block *block), void *arg);

#endif
