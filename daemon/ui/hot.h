/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the CPU went and where threads waited: the report's lines of a snapshot's profiles. */
#ifndef UI_HOT_H
#define UI_HOT_H

#include <stddef.h>

#include "snapshot/snapshot.h"

struct strbuf;

/* Appends nothing when there are no profiles. rows: at most so many functions each. */
void hot__print(const struct snapshot *s, unsigned int width, size_t rows, struct strbuf *out);

#endif
