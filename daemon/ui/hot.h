/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the CPU went and where threads waited: the report's lines of a snapshot's profiles. */
#ifndef UI_HOT_H
#define UI_HOT_H

#include <stdbool.h>
#include <stddef.h>

#include "snapshot/snapshot.h"

struct strbuf;

struct hot_view {
	unsigned int width;
	size_t rows;   /* at most so many functions each */
	size_t wakers; /* and so many pairs of who waited and who ended it */
	bool all;      /* functions of whatever crate, where else only the role's own are shown */
	bool colour;
};

/* Appends nothing when there are no profiles. */
void hot__print(const struct snapshot *s, const struct hot_view *v, struct strbuf *out);

#endif
