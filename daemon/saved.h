/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands on a saved snapshot. */
#ifndef SAVED_H
#define SAVED_H

struct options;

/* Prints the report of opts->file, or with -o writes it in other formats. The exit code. */
int saved__report(const struct options *opts);

#endif
