/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts "threads", "locks" and "stalls" of the snapshot file. */
#ifndef EXPORT_JSON_THREADS_H
#define EXPORT_JSON_THREADS_H

struct jsonw;
struct snapshot;

/* Nothing when threads were not watched. */
void json__threads(struct jsonw *w, const struct snapshot *s);

#endif
