/* SPDX-License-Identifier: BSD-2-Clause */
/* What hangs, in words: on the terminal while it does, and in the report. */
#ifndef UI_STALLS_H
#define UI_STALLS_H

#include "snapshot/snapshot.h"

struct strbuf;

/* Some lines; those about a thread are indented. At most width columns each (0: any). */
void stalls__describe(const struct snapshot_stall *s, unsigned int width, struct strbuf *out);

#endif
