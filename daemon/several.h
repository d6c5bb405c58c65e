/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several processes at once: a child of ours traces each, as if it were alone. What they print is
 * held back and given out one whole report after the other; signals go to all of them; when we are
 * killed they stop by themselves.
 */
#ifndef SEVERAL_H
#define SEVERAL_H

struct options;

/* trace is called in a child for each of --pid, with options of that one. The worst exit code. */
int several__run(const struct options *opts, int (*trace)(const struct options *opts));

#endif
