/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands on a saved snapshot. */
#ifndef SAVED_H
#define SAVED_H

struct options;
struct snapshot;

/* Prints the report of opts->file, or with -o writes it in other formats. The exit code. */
int saved__report(const struct options *opts);

/* A snapshot of a file ("-": standard input); says what is wrong with it. The exit code. */
int saved__load(const char *path, struct snapshot **out);

#endif
