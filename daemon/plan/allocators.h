/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which functions hand out and take back memory. An allocator is a family of functions in one file;
 * Rust's global allocator is a layer above: its shims call the functions of a family. A block
 * passes through both, so one layer is chosen and they are never added up.
 *
 * A family is believed only when what it hands out is seen to come back: link-time optimisation
 * may inline some of Rust's shims and keep the others, and half a family looks like a leak.
 */
#ifndef PLAN_ALLOCATORS_H
#define PLAN_ALLOCATORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roletrace/memory.h"

struct build;
struct image;
struct plan;
struct plan_request;

enum plan_memory {
	PLAN_MEMORY_NONE,   /* allocators are not looked for */
	PLAN_MEMORY_LIVE,   /* totals */
	PLAN_MEMORY_STACKS, /* each block by its address: exits of the allocator are needed */
};

enum plan_layer { PLAN_LAYER_AUTO, PLAN_LAYER_RUST, PLAN_LAYER_MALLOC, PLAN_LAYER_ALL };

/* A family of functions that is there. */
struct plan_allocator {
	char *source;	 /* "rust", "glibc", "jemalloc", ... */
	char *functions; /* what of it was found, in words: "malloc calloc free" */
	char *why;	 /* NULL: complete; else what is missing, in words */
	uint32_t object; /* index into plan->objects */
	bool rust;	 /* the shims of Rust's global allocator */
	bool chunk;	 /* usable sizes, from the chunks (glibc); else requested ones */
	bool late;	 /* mapped after the plan was made */
	bool chosen;
	bool totals; /* its figures are part of the totals (of two layers only one is) */
};

struct plan_mem_site {
	uint64_t offset; /* of the entry site in the file */
	uint64_t vaddr;
	uint32_t allocator; /* index into plan->allocators */
	uint8_t op;	    /* enum rt_mem_op */
	uint8_t insn;	    /* enum rt_insn_class */
	bool returns;	    /* the result is needed */
};

/* Adds the families of the object that was added last. 0 or -ENOMEM. */
int allocators__add(struct build *b, const struct image *img);
/* Once all are added: which to trace; plan->memory_why when none can be. */
int allocators__choose(struct plan *plan, const struct plan_request *req);

#endif
