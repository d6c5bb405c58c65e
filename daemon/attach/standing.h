/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The native stacks of threads that wait now, on demand: the programs of standing.bpf.c. Nothing
 * is loaded, and no tables are made, before the first look. Knows addresses, no names.
 */
#ifndef ATTACH_STANDING_H
#define ATTACH_STANDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roletrace/unwind.h"

struct bpf_map;
struct code;
struct stacks;
struct standing;
struct target;

/* stacks NULL: they are made at the first look. Borrowed, as target is. NULL with errno. */
struct standing *standing__new(const struct target *target, rt_u32 kernel_tgid,
			       struct stacks *stacks);
void standing__free(struct standing *s);

/* A thread as it was found. */
struct standing_thread {
	rt_u32 pid;
	bool moves;		/* it does not wait: a stack only if it was kept from running */
	enum rt_unwind_end end; /* why its frames end */
	const uint64_t *frames; /* innermost first (RT_FRAME_PC) */
	const uint64_t *steps;	/* from each to its caller (RT_STEP_SP) */
	uint32_t depth;
	uint64_t sp;		 /* user stack pointer */
	uint64_t alt_lo, alt_hi; /* its stack for signal handlers, [lo, hi); empty: none */
};

/*
 * Looks at all threads of the target; what was found stays until the next look. 0 or -errno, the
 * first time that it fails for good with one line in *reason (malloc'd), from then on without.
 */
int standing__look(struct standing *s, char **reason);
const struct standing_thread *standing__threads(const struct standing *s, size_t *cnt);
/* Whether a look costs no more than the look itself. */
bool standing__is_ready(const struct standing *s);

/* Object n of a frame is file n of it. NULL before the first look. */
const struct code *standing__code(const struct standing *s);

/*
 * For who counts waits by stack: the programs are loaded, with that map of waits (blocked.bpf.h);
 * and the waits that go on now are noted there, as from since_ns on. standing has stacks.
 */
int standing__prepare(struct standing *s, const struct bpf_map *blocked, char **reason);
int standing__note_older(struct standing *s, uint64_t since_ns);
/* How many were. */
uint64_t standing__older(const struct standing *s);

#endif
