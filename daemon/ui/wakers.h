/* SPDX-License-Identifier: BSD-2-Clause */
/* Who ended the waits of threads: the report's table of the off-CPU profile's wakers. */
#ifndef UI_WAKERS_H
#define UI_WAKERS_H

#include "ui/hot.h"

/*
 * A row for each place in the role's code that was waited in and each place that was woken from, or
 * what else ended the wait, most time first. Nothing where it was not asked for.
 */
void wakers__rows(const struct snapshot_profiles *p, const struct snapshot_profile *of,
		  const struct hot_view *v, struct strbuf *out);

#endif
