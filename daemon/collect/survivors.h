/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The live blocks, looked through all at once: whose they are, how old, and whether those of a call
 * path or of a native stack look like a leak.
 */
#ifndef COLLECT_SURVIVORS_H
#define COLLECT_SURVIVORS_H

#include <stdint.h>

#include "attach/memory.h"
#include "collect/estimate.h"
#include "snapshot/profile.h"

#define SURVIVOR_SLICES 8u

struct survivors;

/* What is live of one owner. Blocks of a sample count for what they stand for. */
struct survivor {
	struct estimate live, old; /* old: older than --leak-after */
	uint64_t oldest_ns;	   /* when it was born; 0: none */
	double slice_bytes[SURVIVOR_SLICES];
	rt_u32 path; /* of a native stack: the call path of one of its blocks */
};

struct survivors_opts {
	rt_u32 owner_cnt;     /* call paths */
	uint32_t stack_cnt;   /* places of native stacks; 0: none */
	rt_u32 allocator_cnt; /* of the plan */
	double leak_after_s;
};

/* memory is borrowed. NULL: no memory. free takes NULL. */
struct survivors *survivors__new(const struct memory *memory, const struct survivors_opts *opts);
void survivors__free(struct survivors *s);

/* Looks at all blocks that are live; start_ns: when the first of them can have been born. */
int survivors__look(struct survivors *s, uint64_t start_ns, uint64_t now_ns);

/* As of the last look. Of a path; of the stack at a place; of stacks that were not kept. */
const struct survivor *survivors__of_path(const struct survivors *s, rt_u32 path);
const struct survivor *survivors__of_stack(const struct survivors *s, uint32_t place);
const struct survivor *survivors__of_lost(const struct survivors *s);
/* Of one size class (RT_MEM_CLASSES) of an allocator; nothing when all blocks are remembered. */
const struct estimate *survivors__of_class(const struct survivors *s, rt_u32 allocator,
					   unsigned int class);

/* Adds one to another, for stacks that read the same. */
void survivor__merge(struct survivor *to, const struct survivor *other);

struct survivor_verdict {
	enum memory_verdict verdict;
	double rate, error; /* of what stays: bytes per second; 0 without a verdict */
};
/* sampled: what is too rare to be in the sample is not called steady. */
void survivors__judge(const struct survivors *s, const struct survivor *of, bool sampled,
		      struct survivor_verdict *out);

#endif
