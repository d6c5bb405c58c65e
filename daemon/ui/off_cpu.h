/* SPDX-License-Identifier: BSD-2-Clause */
/* Where threads waited: the report's table of the off-CPU profile. */
#ifndef UI_OFF_CPU_H
#define UI_OFF_CPU_H

#include "ui/hot.h"

/*
 * A row for each place in the role's code and each way to wait that was reached from there, most
 * time first: the leaf of the stack alone is a function of libc that everybody waits in.
 */
void off_cpu__rows(const struct snapshot_profiles *p, const struct snapshot_profile *of,
		   const struct hot_view *v, struct strbuf *out);

/* Where the role's own code waited longest, and its part of all waiting; NULL: nowhere. */
const char *off_cpu__top(const struct snapshot_profiles *p, double *share);

#endif
