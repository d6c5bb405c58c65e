/* SPDX-License-Identifier: BSD-2-Clause */
/* From the options to a plan: of a process, or of a file alone. Says what is wrong itself. */
#ifndef PLANNING_H
#define PLANNING_H

#include <stdbool.h>

struct options;
struct plan;
struct target;

/*
 * Of a process: its executable, and when they are asked for, its libraries. list: with what only
 * the list command shows. The program's exit code.
 */
int planning__target(const struct options *o, struct target *t, bool list, struct plan **out);
/* Of --exe, for the list command. */
int planning__file(const struct options *o, struct plan **out);

#endif
