/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the CPU went: the report's two tables of the CPU profile. */
#ifndef UI_CPU_H
#define UI_CPU_H

#include "ui/hot.h"

/*
 * The hottest frames, whatever they are of. A sample within a probe is roletrace's own doing: a row
 * of its own has it, and no function.
 */
void cpu__frames(const struct snapshot_profiles *p, const struct hot_view *v, struct strbuf *out);
/* What the profile adds to functions that have probes, and those that have none. */
void cpu__functions(const struct snapshot *s, const struct hot_view *v, struct strbuf *out);

#endif
