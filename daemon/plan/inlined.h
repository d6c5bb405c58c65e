/* SPDX-License-Identifier: BSD-2-Clause */
/* What only debug information knows: own functions without code of their own, and source lines. */
#ifndef PLAN_INLINED_H
#define PLAN_INLINED_H

#include <stdbool.h>

struct image;
struct plan;
struct plan_request;
struct selection;

/* Fills in plan->inlined_only and the rows' files and lines. 0 or -ENOMEM. */
int inlined__find(int fd, const struct image *img, const struct plan_request *req,
		  const struct selection *sel, struct plan *plan);

/* Whether a glob matches a function that exists only inlined. */
bool inlined__matches(int fd, const char *glob);

#endif
