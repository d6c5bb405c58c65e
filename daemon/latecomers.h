/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Libraries with allocators of their own that the process maps while it is traced: their blocks
 * are counted from then on, or it is said why not.
 */
#ifndef LATECOMERS_H
#define LATECOMERS_H

struct attach_mode;
struct latecomers;
struct options;
struct plan;
struct target;
struct tracer;

/* All borrowed; plan and target will get new entries behind their others. NULL: no memory, or the
 * kernel does not tell what is mapped (errno). */
struct latecomers *latecomers__new(const struct options *o, const struct attach_mode *mode,
				   struct target *target, struct plan *plan, struct tracer *tracer);
void latecomers__free(struct latecomers *l);
/* Readable when it is time to look. -1 for NULL. */
int latecomers__fd(const struct latecomers *l);
void latecomers__look(struct latecomers *l);

#endif
