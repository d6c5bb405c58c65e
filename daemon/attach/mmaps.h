/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tells when a process maps code: the kernel's own records of executable mappings, one small ring
 * per CPU. What is unmapped is not told; it matters only once
 * something else is mapped in its place.
 */
#ifndef ATTACH_MMAPS_H
#define ATTACH_MMAPS_H

#include <stdbool.h>

struct mmaps;

/* NULL with errno. pid as seen here. */
struct mmaps *mmaps__new(int pid);
/* Whether the process has mapped code since the last call, as far as can be told: when in doubt,
 * yes. */
bool mmaps__changed(struct mmaps *m);
/* Readable (poll) when some process has mapped code. */
int mmaps__fd(const struct mmaps *m);
void mmaps__free(struct mmaps *m);

#endif
