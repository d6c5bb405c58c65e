/* SPDX-License-Identifier: BSD-2-Clause */
/* The walk: process → plan → attach → collect → export and report, and its event loop. */
#ifndef TRACE_H
#define TRACE_H

struct options;

/* Each returns the program's exit code. */
int trace__run(const struct options *opts);
int trace__list(const struct options *opts);
int trace__check(const struct options *opts);

#endif
