/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target's native stacks: the tables that unwinding needs, and the distinct stacks that the
 * programs of any object have kept. Whoever loads an object that unwinds makes it use these maps.
 * Life: new → share, for each object before it is loaded → tick … → free, after the last of them.
 * Knows addresses, no names.
 */
#ifndef ATTACH_STACKS_H
#define ATTACH_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "roletrace/unwind.h"
#include "target/code.h"

struct bpf_object;
struct stacks;
struct target;

struct stacks_opts {
	uint32_t places; /* distinct stacks kept; 0: the default */
	bool by_thread;	 /* threads of different names have stacks of their own */
};

/* 0 or -errno with one line in *reason (malloc'd). target is borrowed. */
int stacks__new(const struct target *target, const struct stacks_opts *opts, struct stacks **out,
		char **reason);
void stacks__free(struct stacks *s);

/* An object that was opened and is not loaded yet gets the maps of the same names; s NULL: none of
 * its programs unwinds, and it gets none. 0 or -errno. */
int stacks__share(const struct stacks *s, struct bpf_object *obj);

/* Keeps the mappings in step; often. */
void stacks__tick(struct stacks *s, uint64_t now_ns);
/* Readable when a tick is due before its time; -1: none. */
int stacks__fd(const struct stacks *s);

/* Object n of a frame is file n of it. */
const struct code *stacks__code(const struct stacks *s);

/* A stack as it is now. */
struct kept_stack {
	enum rt_stack_kind kind;
	enum rt_unwind_end end;
	uint64_t cnt, total;	/* total: of what its kind says */
	const uint64_t *frames; /* innermost first (RT_FRAME_PC) */
	uint32_t depth;
	char thread[16]; /* its name, with by_thread */
};

/* Places of the table, and what is in one; false: nothing. */
uint32_t stacks__place_cnt(const struct stacks *s);
bool stacks__get(const struct stacks *s, uint32_t place, struct kept_stack *out);

#endif
