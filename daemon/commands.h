/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands that attach to nothing: list, check. */
#ifndef COMMANDS_H
#define COMMANDS_H

struct options;

/* Each returns the program's exit code. */
int command__list(const struct options *opts);
int command__check(const struct options *opts);

#endif
