/* SPDX-License-Identifier: BSD-2-Clause */
/* Call paths from their table, as lists of function names. */
#ifndef COLLECT_PATHS_H
#define COLLECT_PATHS_H

#include "attach/object.h"
#include "snapshot/snapshot.h"

/*
 * The frames of a path, root first, names of s->fns, in s->arena. Paths that are none have one
 * frame that says so. NULL: no memory.
 */
const char *const *paths__frames(const struct object *obj, struct snapshot *s, rt_u32 path,
				 uint32_t *depth);
/* The function that a path leads to; UINT32_MAX for those that are none. */
rt_u32 paths__fn(const struct object *obj, rt_u32 path);

/* Fills in s->paths: calls and times by path, most time first. s->fns must be there. */
int paths__fill(const struct object *obj, struct snapshot *s);

#endif
