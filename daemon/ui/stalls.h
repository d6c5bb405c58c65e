/* SPDX-License-Identifier: BSD-2-Clause */
/* What hangs, in words: on the terminal while it does, and in the report. */
#ifndef UI_STALLS_H
#define UI_STALLS_H

#include "snapshot/snapshot.h"

struct strbuf;

/*
 * Some lines, wrapped at width columns (0: not): what it is, behind the prefix, then the threads,
 * indented.
 */
void stalls__describe(const struct snapshot_stall *s, const char *prefix, unsigned int width,
		      bool colour, struct strbuf *out);

/* One line about one that is over: after how long, what it was, whose. */
void stalls__describe_end(const struct snapshot_stall *s, struct strbuf *out);

#endif
