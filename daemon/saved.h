/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands on a saved snapshot. */
#ifndef SAVED_H
#define SAVED_H

#include <stddef.h>

struct options;
struct snapshot;

/* Prints the report of opts->file, or with -o writes it in other formats. The exit code. */
int saved__report(const struct options *opts);

#define SAVED_MAX 2u
/*
 * The snapshots of at most SAVED_MAX files ("-": standard input); says what is wrong with them. out
 * has to be NULLs, and what is there is to be freed in any case. The exit code. Once, for it limits
 * the memory of the process.
 */
int saved__load(const char *const *paths, size_t cnt, struct snapshot **out);

#endif
