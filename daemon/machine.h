/* SPDX-License-Identifier: BSD-2-Clause */
/* What this machine can do, with the features that the options take away. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdbool.h>

struct features;
struct options;

/* Finds out; a usage error is said. The program's exit code. */
int machine__probe(const struct options *o, bool thorough, struct features *out);
/* Whether something is missing; says what. */
bool machine__say_missing(const struct features *f);

#endif
