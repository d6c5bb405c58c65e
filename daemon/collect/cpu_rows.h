/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CPU samples by function: how often it was on a stack, and innermost. Rows of probed functions are
 * told theirs; of the other functions those with the most samples get rows of their own.
 *
 * Frames are numbers here (of a snapshot's profiles), their functions what the namer says. Copies
 * of a function, inlined or not, are one function; so are functions of one name in one file that
 * are not told apart by rows of the plan.
 */
#ifndef COLLECT_CPU_ROWS_H
#define COLLECT_CPU_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "collect/namer.h"
#include "snapshot/snapshot.h"

#define CPU_ROWS_MAX 1000 /* without probes; the rest is counted */

struct cpu_rows;

/* fns: what each frame is a function of, by number; NULL: of none (the kernel, code without a name
 * yet). Borrowed while samples are added. NULL: no memory. */
struct cpu_rows *cpu_rows__new(const struct named_fn *const *fns, size_t cnt);
void cpu_rows__free(struct cpu_rows *r);

/* A stack, root first, without the kernel's frames: what the kernel does is the work of whoever
 * asked for it. How often it was hit. */
void cpu_rows__add(struct cpu_rows *r, const uint32_t *frames, uint32_t depth, uint64_t samples);

/* Books what belongs to the plan's rows in s->fns, which are in the plan's order. */
void cpu_rows__book(const struct cpu_rows *r, struct snapshot *s);
/* Adds rows for the others behind those of s->fns; counts the rest in its profile. 0 or -ENOMEM. */
int cpu_rows__append(struct cpu_rows *r, struct snapshot *s);

#endif
