/* SPDX-License-Identifier: BSD-2-Clause */
/* Who made the process larger: call paths, and threads outside them, into the snapshot. */
#ifndef COLLECT_GROWTH_H
#define COLLECT_GROWTH_H

#include "attach/growth.h"
#include "attach/object.h"
#include "snapshot/snapshot.h"

/* Fills in the growth of s->memory; s->fns must be there. 0 or -ENOMEM. */
int growth_rows__fill(const struct growth *g, const struct object *obj, struct snapshot *s);

#endif
