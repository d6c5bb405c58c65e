/* SPDX-License-Identifier: BSD-2-Clause */
/* roletrace flame: flamegraphs of a saved snapshot, or of the difference of two. */
#ifndef FLAME_H
#define FLAME_H

struct options;

/* Writes opts->outputs from opts->file, opts->diff and opts->kind. The exit code. */
int flame__run(const struct options *opts);

#endif
