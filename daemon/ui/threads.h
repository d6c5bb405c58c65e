/* SPDX-License-Identifier: BSD-2-Clause */
/* The report's tables of threads and of locks, and the live view's line about them. */
#ifndef UI_THREADS_H
#define UI_THREADS_H

#include <stdbool.h>
#include <stddef.h>

#include "snapshot/snapshot.h"

struct strbuf;

/* At most limit rows (0: 20) of threads and of locks; nothing when none were watched. */
void threads__report(const struct snapshot *s, unsigned int width, size_t limit, bool colour,
		     struct strbuf *out);

/* One line of an interval: how many threads do what. */
void threads__line(const struct snapshot *s, bool colour, struct strbuf *out);

#endif
