/* SPDX-License-Identifier: BSD-2-Clause */
/* From the picked symbols of one file to rows and sites; what build.c and rows.c share. */
#ifndef PLAN_ROWS_H
#define PLAN_ROWS_H

#include "base/vec.h"
#include "plan/plan.h"
#include "symbols/lines.h"

struct image;
struct place;
struct selection;

/* A plan in the making. */
struct build {
	struct plan *plan;
	const struct plan_request *req; /* the whole of it */
	VEC(struct plan_fn) fns;
	VEC(struct plan_site) sites;
	VEC(struct plan_site) catches;
	unsigned int leaps,
		swept; /* enum leap_kind: those that calls may be left by; of them, seen */
	VEC(struct plan_skip) skipped;
	VEC(struct plan_object) objects;
	VEC(char *) notes;
	VEC(struct plan_allocator) allocators;
	VEC(struct plan_mem_site) mem_sites;
	/* of the object that is being added, the last one: */
	const struct image *img;
	const struct selection *sel;
	const char *prefix; /* of its functions' names: "libc.so.6:" */
	VEC(struct place) places;
	VEC(struct line_of) starts; /* of each row, by its first address */
	uint64_t *taken;	    /* places in the file that have a site: a hash set, 0 is free */
	size_t taken_cnt, taken_cap;
};

/* Addresses are alike in their low bits. */
static inline uint32_t address_hash(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdull;
	return (uint32_t)(x >> 33);
}

/* Adds the rows and sites of the object. 0 or -ENOMEM. */
int rows__add(struct build *b);

#endif
