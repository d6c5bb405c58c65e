/* SPDX-License-Identifier: BSD-2-Clause */
/* What the machine can do and how it is to be attached with that; says what is missing. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdbool.h>

#include "attach/features.h"

struct options;

struct machine {
	struct features features;
	struct attach_mode mode; /* nothing special while something is missing */
};

/*
 * thorough: see features__probe. What --without names is taken for missing. The program's exit
 * code: of a wrong --without only.
 */
int machine__probe(const struct options *o, bool thorough, struct machine *out);
/* CODE_NOT_ALLOWED and a line when something is missing. */
int machine__check(const struct machine *m);
/* How it will be done, where that is not as usual. */
void machine__say_mode(const struct machine *m);

#endif
