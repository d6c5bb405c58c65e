/* SPDX-License-Identifier: BSD-2-Clause */
/* From the options to a plan: of a process, or of a file alone. Says what is wrong itself. */
#ifndef PLANNING_H
#define PLANNING_H

#include <stdbool.h>
#include <stddef.h>

struct attach_mode;
struct jail_meanwhile;
struct options;
struct plan;
struct target;

/*
 * Of a process: its executable, and when they are asked for, its libraries. mode: how it will
 * be attached. list: with what only the list command shows. meanwhile: to be done while the files
 * are read (perhaps more than once), or NULL. The program's exit code.
 */
int planning__target(const struct options *o, const struct attach_mode *mode, struct target *t,
		     bool list, const struct jail_meanwhile *meanwhile, struct plan **out);
/* The allocators of one of its libraries (its place in objects). 0 or -errno; says nothing. */
int planning__library(const struct options *o, const struct attach_mode *mode,
		      const struct target *t, size_t object, struct plan **out);
/* Of --exe, for the list command. */
int planning__file(const struct options *o, const struct attach_mode *mode, struct plan **out);

#endif
