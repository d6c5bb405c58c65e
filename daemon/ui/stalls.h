/* SPDX-License-Identifier: BSD-2-Clause */
/* What hangs, in words: on the terminal while it does, and in the report. */
#ifndef UI_STALLS_H
#define UI_STALLS_H

#include "snapshot/snapshot.h"

struct strbuf;

/*
 * Some lines, at most width columns each (0: any): what it is, behind the prefix, then the threads,
 * indented.
 */
void stalls__describe(const struct snapshot_stall *s, const char *prefix, unsigned int width,
		      bool colour, struct strbuf *out);

#endif
