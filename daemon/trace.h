/* SPDX-License-Identifier: BSD-2-Clause */
/* The walk: process → plan → attach → collect → export and report, and its event loop. */
#ifndef TRACE_H
#define TRACE_H

struct options;

/* The program's exit code. */
int trace__run(const struct options *opts);

#endif
